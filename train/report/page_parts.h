/* Fixed text of a page. */
#ifndef TRAIN_REPORT_PAGE_PARTS_H
#define TRAIN_REPORT_PAGE_PARTS_H

extern const char page_style[];
extern const char page_script[];
/* What the page may do: the style and this very script, and nothing from elsewhere. */
extern const char page_policy[];

#endif
