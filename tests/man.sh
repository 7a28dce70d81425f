#!/bin/sh
# A man page has no faults that mandoc finds, fits a terminal of 80 columns, and has every word of the headers that it is
# made from, but for their guards.
# Usage: man.sh PAGE [HEADER...]
set -eu
page=$1
shift
command -v mandoc > /dev/null || { echo 'mandoc is not here'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mandoc -T lint -W warning "$page"
# Bold and underlined characters are printed over each other.
backspace=$(printf '\b')
mandoc -T ascii -O width=80 "$page" | sed "s/.$backspace//g" > "$work/text"
awk 'length($0) > 80 { print "line " NR " has " length($0) " columns: " $0; if (++wide == 5) exit }
     END { exit wide > 0 }' "$work/text"

words() { tr -cs 'A-Za-z0-9_' '\n' < "$1" | grep . | LC_ALL=C sort -u; }
words "$work/text" > "$work/printed"
for header; do
    # The opening comment, and all from the first heading to the end of extern "C".
    awk 'NR == 1, /\*\/$/ { print; next } /^\/\* ---- / { inside = 1 } /^#ifdef __cplusplus/ { inside = 0 } inside' \
        "$header" > "$work/header"
    words "$work/header" | grep -vx SCION_API | LC_ALL=C comm -23 - "$work/printed" > "$work/missing"
    [ ! -s "$work/missing" ] || { echo "${header##*/}: not in the page:" && cat "$work/missing"; exit 1; }
done
