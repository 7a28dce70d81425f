/* mistakes.json: what is read is the same when it was written and read again, and becomes a part of a page. */
#include <string.h>

#include "fuzz_report.h"
#include "record/mistakes.h"

/* As JSON without the pixels; the caller frees it. */
static char *text_of(const mistakes *m)
{
    json_t *all = mistakes_json(m, false);
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(all);
    fuzz_require(text);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[512];
    mistakes *m = NULL, *again = NULL;
    scion_error err = {0};
    fuzz_put("mistakes.json", size > 0 ? data : (const uint8_t *)"", size);
    snprintf(path, sizeof path, "%s/mistakes.json", fuzz_folder());
    if (mistakes_read(&m, path, &err) != SCION_OK) {
        fuzz_require_sentence(&err);
        fuzz_require(!m);
        return 0;
    }
    fuzz_require(m && mistakes_save(m, -1, path, &err) == SCION_OK);
    fuzz_require(mistakes_read(&again, path, &err) == SCION_OK);
    char *before = text_of(m), *after = text_of(again);
    fuzz_require(strcmp(before, after) == 0);
    page *p = page_create("page.html", "fuzz");
    fuzz_require(p);
    report_mistakes(p, "", m);
    fuzz_draw(p);
    page_free(p);
    free(before);
    free(after);
    mistakes_free(m);
    mistakes_free(again);
    return 0;
}
