/* Folders of runs: metrics.jsonl, and behind a byte 0 summary.json. What is read becomes the figures of a report. */
#include "fuzz_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const fuzz_input metrics = fuzz_part(&in, 0);
    run_record run;
    scion_error err = {0};
    fuzz_put("metrics.jsonl", metrics.left > 0 ? metrics.at : (const uint8_t *)"", metrics.left);
    fuzz_put("summary.json", in.left > 0 ? in.at : NULL, in.left);
    if (run_record_read(&run, fuzz_folder(), &err) == SCION_OK) {
        page *p = page_create("page.html", "fuzz");
        fuzz_require(p);
        report_runs(p, &run, 1);
        fuzz_draw(p);
        page_free(p);
    } else {
        fuzz_require_sentence(&err);
    }
    run_record_free(&run);
    return 0;
}
