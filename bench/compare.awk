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

# PyTorch's fastest setting by the whole step.
function best_of(case_,    i, best)
{
    best = who[2]
    for (i = 3; i <= who_count; i++)
        if (ms(case_, who[i], "step") < ms(case_, best, "step"))
            best = who[i]
    return best
}

function title(name)
{
    sub(/^torch/, "PyTorch", name)
    sub(/-core/, " " core, name)
    sub(/-passive/, " passive", name)
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
        printf "  %-31s", title(who[i])
        for (p = 1; p <= 4; p++)
            printf " %10.1f", ms(case_, who[i], part[p])
        printf " %10.2f\n", median(case_ SUBSEP who[i] SUBSEP "peak_bytes") / 2 ^ 30
    }
    if (who_count > 1) {
        best = best_of(case_)
        ratios(case_, "torch", "default / ours")
        ratios(case_, best, "best (" substr(title(best), 9) ") / ours")
    }
    p = median(case_ SUBSEP "ours" SUBSEP "share_of_peak")
    printf "  ours: %.1f%% of the sgemm peak in forward and backward", 100 * p
    verdict(case_, best, p)
    printf "\n\n"
}

function met(what, yes)
{
    printf "; %s: %s", what, (yes ? "met" : "missed")
}

# The bars that the project sets itself with two threads and Scion.
function verdict(case_, best, share,    mine)
{
    mine = ms(case_, "ours", "step")
    if (case_ == "124m-scion")
        met("70%", share >= 0.7)
    if (case_ ~ /-scion$/ && who_count > 1)
        met("2 times faster than the best", ms(case_, best, "step") >= 2 * mine)
    if (case_ == "124m-scion" && who_count > 1)
        met("3 times faster than the default", ms(case_, "torch", "step") >= 3 * mine)
}

function write_json(    i, c, k, name, keys, n, comma)
{
    n = split("forward_ms backward_ms optimizer_ms step_ms tokens_per_s peak_bytes", keys, " ")
    printf "{\n  \"threads\": %d, \"rounds\": %d, \"core\": \"%s\",\n  \"cases\": {", threads, rounds, core > json
    for (c = 1; c <= case_count; c++) {
        printf "%s\n    \"%s\": {", (c > 1 ? "," : ""), name_of[c] > json
        for (i = 1; i <= who_count; i++) {
            printf "%s\n      \"%s\": {", (i > 1 ? "," : ""), who[i] > json
            for (k = 1; k <= n; k++)
                printf "%s\"%s\": %.6g", (k > 1 ? ", " : ""), keys[k],
                    median(name_of[c] SUBSEP who[i] SUBSEP keys[k]) > json
            if (who[i] == "ours")
                printf ", \"share_of_peak\": %.4g", median(name_of[c] SUBSEP "ours" SUBSEP "share_of_peak") > json
            printf "}" > json
        }
        if (who_count > 1)
            printf ",\n      \"step_ratio_default\": %.4g, \"step_ratio_best\": %.4g, \"best\": \"%s\"",
                ms(name_of[c], "torch", "step") / ms(name_of[c], "ours", "step"),
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
