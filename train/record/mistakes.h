/* Mistakes of a classifier: how often each class is taken for another one, and the images whose class it thought
 * least likely. The validation at the end of a run collects it, the run's folder keeps it (mistakes.json, see
 * docs/file-formats.md), and a report draws it without the model and the data. */
#ifndef TRAIN_RECORD_MISTAKES_H
#define TRAIN_RECORD_MISTAKES_H

#include "util/json.h"
#include "data/data.h"

enum {
    MISTAKES_WORST = 24,  /* images that are kept */
    MISTAKES_SIDE = 96,   /* pixels that a side of them has at most: larger ones are made smaller */
    MISTAKES_PAIRS = 2000 /* kinds of mistakes that a file keeps: all, up to 45 classes */
};

typedef struct mistakes_class {
    char *name;
    json_int_t images, right; /* measured, and answered right */
} mistakes_class;

/* Number of images of one class that were taken for another one. */
typedef struct mistakes_pair {
    json_int_t target, answer, images;
} mistakes_pair;

typedef struct mistakes_image {
    json_int_t sample; /* number among those that were measured, from 0 */
    json_int_t target, answer;
    double loss;        /* -log of the probability of its class, with tta */
    double probability; /* of the answer */
    uint8_t *pixels;    /* (height, width, channels) of mistakes */
    char *file;         /* path in the folder of the data; NULL: not known, or not a file */
} mistakes_image;

typedef struct mistakes {
    json_int_t step; /* of the run, when it was validated */
    char tta[32];    /* test-time augmentation that the answers rest on */
    char part[120];  /* the images: data_info.held_out; "": not known */
    int64_t class_count;
    mistakes_class *classes;
    int64_t pair_count;                 /* pairs that are here: the most frequent ones */
    json_int_t pairs_found;             /* number before the rest was left out */
    mistakes_pair *pairs;               /* most frequent first */
    json_int_t height, width, channels; /* of the images below */
    int worst_count;
    mistakes_image worst[MISTAKES_WORST]; /* the highest loss first */
} mistakes;

/* An empty collection for images of these data. */
scion_status mistakes_create(mistakes **out, const data_info *d, scion_error *err);
void mistakes_free(mistakes *m);

/* Counts one image. logits: one for each class, finite; pixels: the image as the model sees it. False: out of
 * memory. */
bool mistakes_add(mistakes *m, const data_info *d, int64_t sample, int32_t target, const float *logits,
                  const float *pixels);
/* After the last image: puts the pairs in order and adds the files of the worst images, whose samples are numbers of
 * the sequence. */
void mistakes_end(mistakes *m, const data_set *d, data_sequence s);

/* Sums over all classes; without a name. */
mistakes_class mistakes_total(const mistakes *m);

/* The object that the file holds; NULL: out of memory. pixels: with the images. */
json_t *mistakes_json(const mistakes *m, bool pixels);
/* Writes a file as a whole (atomic_file.h), in the open folder `folder` if that is >= 0. */
scion_status mistakes_save(const mistakes *m, int folder, const char *path, scion_error *err);
/* Reads a file, which may be anything. *out NULL and OK: there is none. ESTATE: it is no such file, or it contradicts
 * itself. */
scion_status mistakes_read(mistakes **out, const char *path, scion_error *err);

#endif
