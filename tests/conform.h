/* Shared by the files of the conformance runner (see conform.c): one record under test, and how its fields are
 * read, its arrays compared and its library calls checked.
 *
 * Reading is sticky: the first thing wrong with a record is kept and every later read returns NULL or 0, so that
 * a runner reads all it needs, asks once whether the record is `conform_ready`, and then works. */
#ifndef CONFORM_H
#define CONFORM_H

#include "scion_advanced.h"

#include <jansson.h>
#include <stdbool.h>

typedef enum conform_verdict {
    CONFORM_PASS = 0,
    CONFORM_DIFFERS,  /* the library's numbers are not the record's, or it refused */
    CONFORM_UNKNOWN,  /* the record asks for something that the runner does not know */
    CONFORM_MALFORMED /* the record is not of the format */
} conform_verdict;

typedef struct conform_block conform_block;

typedef struct conform_case {
    const json_t *record;
    const char *name;
    double tol;         /* on max|ours - golden| / max|golden|, per array */
    bool eps_sensitive; /* run with the constants that the reference adds to its denominators */
    conform_verdict verdict;
    char message[400]; /* why, when the verdict is not PASS */
    char remark[200];  /* a difference that does not count, to be reported apart; or empty */
    double worst;      /* largest error over tolerance of all arrays that differ */
    conform_block *memory;
} conform_case;

/* conform_record.c ------------------------------------------------------------------------------------------ */

/* Zeroed memory that lives as long as the case. Ends the program when there is none. */
void *conform_alloc(conform_case *c, int64_t count, size_t size);
void conform_release(conform_case *c);

/* Sets the verdict and its message, unless one is set already. */
void conform_fail(conform_case *c, conform_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool conform_ready(const conform_case *c);

/* Fields of an object. The plain readers demand the field, the `_or` readers give `value` where it is absent. */
double conform_number(conform_case *c, const json_t *object, const char *key);
double conform_number_or(conform_case *c, const json_t *object, const char *key, double value);
int64_t conform_integer(conform_case *c, const json_t *object, const char *key);
int64_t conform_integer_or(conform_case *c, const json_t *object, const char *key, int64_t value);
bool conform_flag_or(conform_case *c, const json_t *object, const char *key, bool value);
const char *conform_string(conform_case *c, const json_t *object, const char *key);
bool conform_has(const json_t *object, const char *key); /* present and not null */

/* Arrays of exactly `count` numbers: inputs as the float32 that they are, outputs as double. The `_at` reader
 * takes element k of an array of arrays and gives NULL, without complaint, where that element is null. */
float *conform_floats(conform_case *c, const json_t *object, const char *key, int64_t count);
double *conform_doubles(conform_case *c, const json_t *object, const char *key, int64_t count);
double *conform_doubles_at(conform_case *c, const json_t *object, const char *key, int64_t k, int64_t count);
float *conform_floats_at(conform_case *c, const json_t *object, const char *key, int64_t k, int64_t count);

/* An array field of `least` elements or more, and its length (0 where there is none). */
const json_t *conform_list(conform_case *c, const json_t *object, const char *key, int64_t least, int64_t *count);

/* Compares n values with the golden ones; a difference above the tolerance makes the case differ, and the
 * worst array of the case is the one that its message names. */
void conform_compare(conform_case *c, const char *array, int64_t n, const double *ours, const double *golden);
void conform_compare_floats(conform_case *c, const char *array, int64_t n, const float *ours, const double *golden);
void conform_compare_value(conform_case *c, const char *array, double ours, double golden);

/* True when the library call went well; else the case differs, with the library's own sentence. */
bool conform_call(conform_case *c, const char *function, scion_status status, const scion_error *err);

/* conform_norm.c: parameters and norms, and the records about one norm ---------------------------------------- */

/* Options of the case: defaults, the reference's constants where the record is eps_sensitive. */
scion_options conform_options(const conform_case *c, scion_rule rule, scion_polar_set polar);

/* Reads `shape` (a scalar becomes a vector of one) and gives the number of elements. */
scion_param conform_shape(conform_case *c, const json_t *object, int64_t *count);

/* Sets norm, role and `transposed` from the reference's norm and options, and the rounds of Newton-Schulz. */
void conform_reference_norm(conform_case *c, const char *norm, const json_t *options, scion_param *p, int32_t *steps);

/* Sets norm and role from the paper's name of an operator norm. */
void conform_paper_norm(conform_case *c, const char *norm, scion_param *p);

void conform_lmo(conform_case *c);
void conform_norm_dual(conform_case *c);
void conform_exact_lmo(conform_case *c);
void conform_sharp(conform_case *c);
void conform_fw_gap(conform_case *c);
void conform_joint_norm(conform_case *c);

/* conform_trajectory.c and conform_methods.c: optimizer runs ------------------------------------------------- */

void conform_trajectory(conform_case *c);
void conform_paper_trajectory(conform_case *c);

/* conform_other.c --------------------------------------------------------------------------------------------- */

void conform_schedule(conform_case *c);
void conform_init_property(conform_case *c);
void conform_activation(conform_case *c);

#endif
