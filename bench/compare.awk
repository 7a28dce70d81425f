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

function share(case_, name)
{
    return median(case_ SUBSEP name SUBSEP "share_of_limit")
}

function ran(case_, name)
{
    return count[case_ SUBSEP name SUBSEP "step_ms"] > 0
}

function precision_of(name)
{
    return name ~ /bf16|autocast/ ? "bf16" : "float32"
}

# Our fastest contender by the whole step, or PyTorch's, in a precision or in "either"; or nothing.
function best_of(case_, of_ours, precision,    i, best)
{
    best = ""
    for (i = 1; i <= who_count; i++)
        if (ran(case_, who[i]) && (who[i] ~ /^ours/) == of_ours &&
            (precision == "either" || precision == precision_of(who[i])) &&
            (best == "" || ms(case_, who[i], "step") < ms(case_, best, "step")))
            best = who[i]
    return best
}

# Whether contenders of both precisions ran.
function both_ran(case_)
{
    return ran(case_, "ours") && ran(case_, "ours-bf16")
}

function title(name)
{
    sub(/^autocast/, "torch2 autocast", name)
    sub(/^ours-/, "ours ", name)
    sub(/^torch2/, "PyTorch 2", name)
    sub(/^torch/, "PyTorch 1", name)
    sub(/-core/, " " core, name)
    sub(/-passive/, " passive", name)
    sub(/-compile/, " compiled", name)
    return name
}

# PyTorch's best over ours in a precision, part by part, if both ran.
function ratios(case_, precision,    p, best, ours)
{
    best = best_of(case_, 0, precision)
    ours = best_of(case_, 1, precision)
    if (best == "" || ours == "")
        return
    printf "  %-31s", "PyTorch's best / ours, " precision
    for (p = 1; p <= 4; p++)
        printf " %9.2fx", ms(case_, best, part[p]) / ms(case_, ours, part[p])
    printf "  (%s / %s)\n", title(best), title(ours)
}

function table(case_,    i, p)
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
    ratios(case_, "float32")
    ratios(case_, "bf16")
    if (both_ran(case_))
        ratios(case_, "either")
    if (ran(case_, "ours")) {
        printf "  ours: %.1f%% of what multiply-adds on registers reach, in forward and backward",
            100 * share(case_, "ours")
        verdict(case_, best_of(case_, 0, "float32"), share(case_, "ours"))
        printf "\n"
    }
    if (ran(case_, "ours-bf16")) {
        printf "  ours bf16: %.1f%% of what multiply-adds in bfloat16 reach, in forward and backward",
            100 * share(case_, "ours-bf16")
        bf16_verdict(case_, both_ran(case_) ? best_of(case_, 0, "either") : "", share(case_, "ours-bf16"))
        printf "\n"
    }
    if (case_ == "llmc-adamw")
        printf "  llm.c publishes 1290 to 1370 ms a step, on an M3 Max with 8 threads\n"
    printf "\n"
}

function met(what, yes)
{
    printf "; %s: %s", what, (yes ? "met" : "missed")
}

# The bars that the project sets itself with two threads, in float32.
function verdict(case_, best, reached)
{
    if (case_ ~ /^124m/)
        met("82%", reached >= 0.82)
    if (case_ ~ /^small/)
        met("72%", reached >= 0.72)
    if (case_ ~ /^airbench/) {
        met("75%", reached >= 0.75)
        if (best != "")
            met("1.1 times faster than the best", ms(case_, best, "step") >= 1.1 * ms(case_, "ours", "step"))
    } else if (case_ ~ /-scion$/ && best != "")
        met("2.2 times faster than the best", ms(case_, best, "step") >= 2.2 * ms(case_, "ours", "step"))
}

# Those in bfloat16: against PyTorch's best in any precision.
function bf16_verdict(case_, best, reached,    bar)
{
    if (case_ ~ /^124m/)
        met("68%", reached >= 0.68)
    if (case_ ~ /^small/)
        met("55%", reached >= 0.55)
    bar = case_ == "124m-scion" ? 1.45 : case_ == "124m-muon" ? 1.35 : case_ == "small-scion" ? 1.25 : \
        case_ ~ /^(124m-adamw|airbench)/ ? 1.2 : 0
    if (bar > 0 && best != "")
        met(bar " times faster than the best", ms(case_, best, "step") >= bar * ms(case_, "ours-bf16", "step"))
}

# A ratio of whole steps as JSON, with the name of PyTorch's setting; suffix: of the keys.
function json_ratio(case_, precision, suffix,    best, ours)
{
    best = best_of(case_, 0, precision)
    ours = best_of(case_, 1, precision)
    if (best == "" || ours == "")
        return
    printf ",\n      \"step_ratio_best%s\": %.4g, \"best%s\": \"%s\"", suffix,
        ms(case_, best, "step") / ms(case_, ours, "step"), suffix, best > json
    if (precision == "either")
        printf ", \"ours_either\": \"%s\"", ours > json
}

function write_json(    i, c, k, keys, n)
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
            if (who[i] ~ /^ours/)
                printf ", \"share_of_limit\": %.4g", share(name_of[c], who[i]) > json
            printf "}" > json
        }
        json_ratio(name_of[c], "float32", "")
        json_ratio(name_of[c], "bf16", "_bf16")
        if (both_ran(name_of[c]))
            json_ratio(name_of[c], "either", "_either")
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
