/* Drawing a page without writing it. */
#ifndef FUZZ_FUZZ_REPORT_H
#define FUZZ_FUZZ_REPORT_H

#include "fuzz.h"
#include "report/section.h"

/* Every figure of a page as drawing, as numbers and in the page: UTF-8 without control characters, elements that are
 * closed. */
void fuzz_draw(const page *p);

#endif
