#!/bin/sh
# The page in a browser: no message on the console, all figures there, points that tell their numbers, and nothing
# wider than a telephone. Without Chromium: skipped (77). KEEP=FOLDER in the environment keeps the pictures.
#     report_browser.sh PATH-OF-SCION PRESETS
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    { echo 'SKIPPED: there is no chromium here'; exit 77; }
. "${0%/*}/opening"

# A name that nobody can break a line in, and characters that HTML knows.
long='a_run_with_a_rather_long_name_that_has_no_blank_in_it_and_goes_on_and_on_and_on<&>'
tiny='model=mlp norms=image data_kind=synthetic batch=16 steps=30 log_every=1 eval_every=10 norm_every=10 threads=1'
# shellcheck disable=SC2086 # one word per setting
"$scion" train $tiny width=16 out=first > log 2>&1 || { fault "train: $?"; cat log; }
# shellcheck disable=SC2086
"$scion" train $tiny width=32 lr=0.125 layers=8 "out=$long" > log 2>&1 || { fault "train: $?"; cat log; }
"$scion" report first "$long" > out 2>&1 || { fault "report: $?"; cat out; }

browse() {
    timeout 60 "$chromium" --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" --no-first-run \
        --disable-background-networking --hide-scrollbars "$@"
}

# ---- As it is: no error, no blocked resource, every figure
browse --enable-logging=stderr --dump-dom "file://$dir/report.html" > dom 2> console || fault "chromium: $?"
if grep -E 'CONSOLE' console; then fault 'the console has messages'; fi
for id in compare-accuracy compare-validation compare-training run1-loss run1-accuracy run1-lr run1-norms run1-speed \
    run1-optimizer run2-loss; do
    grep -q "<figure id=\"$id\">" dom || fault "no figure $id"
done
grep -q 'aria-label=' dom || fault 'the script did not run'

# ---- A copy without the policy, with a script that measures: in a frame of 360 pixels, for no window is as narrow
cat > measure.js <<'END'
<script>
addEventListener('load', () => {
  for (const details of document.querySelectorAll('details')) details.open = true;
  const point = document.querySelector('.fig .p'), box = point.getBoundingClientRect();
  point.closest('svg').dispatchEvent(new PointerEvent('pointermove',
    {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2}));
  const tip = document.getElementById('tip');
  let wide = '';
  for (const e of document.querySelectorAll('body *:not(.scroll *)'))
    if (!e.closest('svg') && e.getBoundingClientRect().right > innerWidth + 0.5) wide = e.outerHTML.slice(0, 80);
  parent.postMessage('tip:' + (!tip.hidden && /loss|accuracy/.test(tip.textContent)) +
    ' overflow:' + (document.documentElement.scrollWidth - innerWidth) + ' ' + wide, '*');
});
</script>
END
{ sed '/Content-Security-Policy/d; /<\/body>/,$d' report.html; cat measure.js; echo '</body></html>'; } > copy.html
for width in 360 390 1200; do
    echo "<!DOCTYPE html><body style='margin:0'><iframe src='copy.html' style='width:${width}px;height:900px;border:0'>
        </iframe><script>onmessage = e => { document.body.append('width $width ' + e.data); };</script>" > frame.html
    browse --virtual-time-budget=4000 --window-size=1300,900 --dump-dom "file://$dir/frame.html" > dom 2> console
    grep -q "width $width tip:true overflow:0 *<" dom ||
        { fault "at $width pixels:"; grep -o 'width [0-9]* tip.*' dom; }
done

# ---- Standalone figures
for figure in report/*.svg; do
    browse --enable-logging=stderr --dump-dom "file://$dir/$figure" > dom 2> console
    grep -q 'parsererror' dom && fault "$figure is no XML"
    grep -q 'class="fig"' dom || fault "$figure is not shown"
    break # they are all made by one function
done

# ---- Pictures, for people
if [ -n "${KEEP:-}" ]; then
    mkdir -p "$KEEP"
    browse --window-size=1200,3000 --screenshot="$KEEP/report.png" "file://$dir/report.html" 2> /dev/null
    browse --no-pdf-header-footer --print-to-pdf="$KEEP/report.pdf" "file://$dir/report.html" 2> /dev/null
fi
[ $faults -eq 0 ]
