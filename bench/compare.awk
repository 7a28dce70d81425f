# Table and JSON of bench/compare. Input lines: case, contender, key, value; a key comes once per round.
# Variables: cases, contenders (lists), core, rounds, threads, json (file, or empty).

function median(key,    n, i, j, v, t)
{
    n = count[key]
    for (i = 1; i <= n; i++)
        v[i] = value[key, i]
    for (i = 2; i <= n; i++) {
        t = v[i]
        for (j = i - 1; j >= 1 && v[j] > t; j--)
            v[j + 1] = v[j]
        v[j + 1] = t
    }
    return n == 0 ? 0 : n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

function ms(case_, who, part)
{
    return median(case_ SUBSEP who SUBSEP part "_ms")
}

function ran(case_, name)
{
    return count[case_ SUBSEP name SUBSEP "step_ms"] > 0
}

# PyTorch's fastest setting by the whole step, or nothing.
function best_of(case_,    i, best)
{
    best = ""
    for (i = 2; i <= who_count; i++)
        if (ran(case_, who[i]) && (best == "" || ms(case_, who[i], "step") < ms(case_, best, "step")))
            best = who[i]
    return best
}

function title(name)
{
    sub(/^torch2/, "PyTorch 2", name)
    sub(/^torch/, "PyTorch 1", name)
    sub(/-core/, " " core, name)
    sub(/-passive/, " passive", name)
    sub(/-compile/, " compiled", name)
    return name
}

function ratios(case_, name, label,    p)
{
    printf "  %-31s", label
    for (p = 1; p <= 4; p++)
        printf " %9.2fx", ms(case_, name, part[p]) / ms(case_, "ours", part[p])
    printf "\n"
}

function table(case_,    i, p, best)
{
    printf "%s, %d threads, ms\n  %-31s %10s %10s %10s %10s %10s\n", case_, threads, "", "forward", "backward",
        "optimizer", "step", "GiB"
    for (i = 1; i <= who_count; i++) {
        if (!ran(case_, who[i]))
            continue
        printf "  %-31s", title(who[i])
        for (p = 1; p <= 4; p++)
            printf " %10.1f", ms(case_, who[i], part[p])
        printf " %10.2f\n", median(case_ SUBSEP who[i] SUBSEP "peak_bytes") / 2 ^ 30
    }
    best = best_of(case_)
    if (best != "")
        ratios(case_, best, "best (" title(best) ") / ours")
    p = median(case_ SUBSEP "ours" SUBSEP "share_of_limit")
    printf "  ours: %.1f%% of what multiply-adds on registers reach, in forward and backward", 100 * p
    verdict(case_, best, p)
    if (case_ == "llmc-adamw")
        printf "\n  llm.c publishes 1290 to 1370 ms a step, on an M3 Max with 8 threads"
    printf "\n\n"
}

function met(what, yes)
{
    printf "; %s: %s", what, (yes ? "met" : "missed")
}

# The bars that the project sets itself with two threads.
function verdict(case_, best, share)
{
    if (case_ ~ /^124m/)
        met("82%", share >= 0.82)
    if (case_ ~ /^small/)
        met("72%", share >= 0.72)
    if (case_ ~ /^airbench/) {
        met("75%", share >= 0.75)
        if (best != "")
            met("1.1 times faster than the best", ms(case_, best, "step") >= 1.1 * ms(case_, "ours", "step"))
    } else if (case_ ~ /-scion$/ && best != "")
        met("2.2 times faster than the best", ms(case_, best, "step") >= 2.2 * ms(case_, "ours", "step"))
}

function write_json(    i, c, k, name, keys, n, comma)
{
    n = split("forward_ms backward_ms optimizer_ms step_ms peak_bytes", keys, " ")
    printf "{\n  \"threads\": %d, \"rounds\": %d, \"core\": \"%s\",\n  \"cases\": {", threads, rounds, core > json
    for (c = 1; c <= case_count; c++) {
        printf "%s\n    \"%s\": {", (c > 1 ? "," : ""), name_of[c] > json
        for (i = 1; i <= who_count; i++) {
            if (!ran(name_of[c], who[i]))
                continue
            printf "%s\n      \"%s\": {", (i > 1 ? "," : ""), who[i] > json
            for (k = 1; k <= n; k++)
                printf "%s\"%s\": %.6g", (k > 1 ? ", " : ""), keys[k],
                    median(name_of[c] SUBSEP who[i] SUBSEP keys[k]) > json
            if (who[i] == "ours")
                printf ", \"share_of_limit\": %.4g", median(name_of[c] SUBSEP "ours" SUBSEP "share_of_limit") > json
            printf "}" > json
        }
        if (best_of(name_of[c]) != "")
            printf ",\n      \"step_ratio_best\": %.4g, \"best\": \"%s\"",
                ms(name_of[c], best_of(name_of[c]), "step") / ms(name_of[c], "ours", "step"),
                best_of(name_of[c]) > json
        printf "\n    }" > json
    }
    printf "\n  }\n}\n" > json
}

BEGIN {
    split("forward backward optimizer step", part, " ")
    case_count = split(cases, name_of, " ")
    who_count = split(contenders, who, " ")
}

{
    key = $1 SUBSEP $2 SUBSEP $3
    value[key, ++count[key]] = $4 + 0
}

END {
    for (c = 1; c <= case_count; c++)
        table(name_of[c])
    if (json != "")
        write_json()
}
