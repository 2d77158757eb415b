/* data.h -- where batches come from: captcha generator, PNG files, sources, loader, augmentation.
**
** Everything here works on raw buffers and knows no tensor. Images are H,W,C u8 in memory (C = 1 gray,
** 3 RGB), batches N,H,W,C. A source answers "give me sample id of epoch e"; a loader orders the ids,
** reads them on its own threads, augments, normalises and hands out whole batches in order. Every
** random choice is a Philox stream of (seed, epoch, sample), so a batch has the same bytes for any
** number of workers, and 24 bytes of state resume a run exactly.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_H
#define CAPL_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capl/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  CAPL_LABEL_MAX = 32,   /* T, characters of a label */
  CAPL_OFTEN_MAX = 100,  /* how many times as often a generator may draw a character */
  CAPL_FONTS_MAX = 8,    /* fonts one generator mixes */
  CAPL_CHARSET_MAX = 94, /* K, classes: printable ASCII without space */
  CAPL_WIDTHS_MAX = 16,  /* widths that images of one source may have */
};

/* ---- charset --------------------------------------------------------------------------------- */

/* Expands ranges: "0-9A-F" -> "0123456789ABCDEF". A '-' that is first or last stands for itself.
** The class id of a character is its place in the expanded text.
** EVALUE for an empty charset, a range that runs backwards, a repeated or unprintable character. */
CAPL_API capl_status capl_charset_expand(const char *spec, char expanded[CAPL_CHARSET_MAX + 1]);

/* ---- captcha generator ----------------------------------------------------------------------- */

typedef struct capl_captcha capl_captcha; /* immutable once made, shared by any number of threads */

typedef struct {
  bool given;   /* false = as the preset has it */
  float lo, hi; /* uniform, rolled anew for each thing it applies to */
} capl_captcha_range;

typedef struct {
  bool given;
  uint8_t lo[3], hi[3]; /* RGB, each channel uniform */
} capl_captcha_colours;

typedef struct {
  const char *charset; /* may hold ranges; NULL = the preset's */
  int length;          /* characters per image, 1..CAPL_LABEL_MAX; 0 = the preset's */
  int length_max;      /* each image has length..length_max of them, uniformly; 0 = length */
  int width, height;   /* px; 0 = the preset's */
  bool grows;          /* longer texts have wider images: width is that of texts of the preset's own length, others' is in
                       ** proportion to their characters */
  const char *fonts[CAPL_FONTS_MAX]; /* until NULL: paths of TrueType files, or bare names of installed ones. Each letter is
                                     ** of one of them. None = the preset's own, of which Noto Mono may be replaced
                                     ** by $CAPL_FONT */
  const char *often;   /* characters of the charset that come more often than the others; NULL = none */
  int times;           /* how many times as often, 1..CAPL_OFTEN_MAX; 0 = 1 */
  /* What only some presets have: capl_style_option_at tells of each. */
  capl_captcha_range size, rotate, warp, spacing, rise, lines, arcs, curves, line_width, dots, dot_size, grain, smooth;
  capl_captcha_colours background, ink, line_ink;
  const char *style, *backdrop, *ink_per; /* NULL = as the preset has it */
} capl_captcha_options;

typedef enum {
  CAPL_STYLE_RANGE,  /* capl_captcha_range */
  CAPL_STYLE_COUNT,  /* the same, of whole numbers */
  CAPL_STYLE_COLOUR, /* capl_captcha_colours */
  CAPL_STYLE_WORD,   /* const char * */
} capl_style_kind;

typedef struct {
  const char *name;
  capl_style_kind kind;
  size_t offset;            /* in capl_captcha_options */
  float least, most;        /* of ranges and counts */
  const char *const *words; /* until NULL */
  const char *doc;
} capl_style_option;

/* i-th option that only some presets have, NULL past the last; and whether the preset of that number has it. */
CAPL_API const capl_style_option *capl_style_option_at(int i);
CAPL_API bool capl_captcha_preset_has(int preset, const capl_style_option *option);
/* i-th preset name, NULL past the last. */
CAPL_API const char *capl_captcha_preset_name(int i);

/* preset: a name of that list. options may be NULL. *gen: caller unrefs.
** EVALUE for an unknown preset (the message lists them), a bad option, or one that the preset does not have; EIO for a
** missing font; EFORMAT for one that is damaged or lacks a character. */
CAPL_API capl_status capl_captcha_new(const char *preset, const capl_captcha_options *options,
                                      capl_captcha **gen);
CAPL_API capl_captcha *capl_captcha_ref(capl_captcha *gen);
CAPL_API void capl_captcha_unref(capl_captcha *gen); /* NULL is fine */

/* Draws image index of the stream named seed: a pure function of (gen's options, seed, index).
** pixels: H*W*channels bytes; channels 1 (luma) or 3. labels: capl_captcha_length(gen) class ids, -1 past the end of a
** shorter text. Thread-safe; allocates only when more threads draw at once than ever before. EVALUE for other channels;
** ENOMEM. */
CAPL_API capl_status capl_captcha_draw(const capl_captcha *gen, uint64_t seed, uint64_t index,
                                       int channels, uint8_t *pixels, int32_t *labels);

/* How hard an image is, between the easiest and what the generator's options say. */
typedef struct {
  int length_lo, length_hi; /* characters, within the generator's range; 0 = its own end of it */
  float charset_share;      /* how many of the charset's letters occur, 0 (one of them) .. 1 (all); smaller sets are parts
                            ** of larger ones, and the same for every seed */
  float noise;              /* 0..1 of the lines, dots, arcs and particles */
  float warp;               /* 0..1 of turning and of pushing letters out of shape */
} capl_difficulty;

/* The same at a difficulty, which is part of what the image is a function of; NULL = {0, 0, 1, 1, 1}, all as the options
** say. EVALUE for a length outside the generator's range or a share outside 0..1. */
CAPL_API capl_status capl_captcha_draw_at(const capl_captcha *gen, uint64_t seed, uint64_t index,
                                          const capl_difficulty *difficulty, int channels, uint8_t *pixels,
                                          int32_t *labels);
/* The generator that draws an image, and says how wide it is: gen itself, or, where longer texts have wider images, that of
** the image's text. Borrowed. Pixels and labels of draw are for its width and gen's length. */
CAPL_API const capl_captcha *capl_captcha_member(const capl_captcha *gen, uint64_t seed, uint64_t index, const capl_difficulty *difficulty);
/* px that images may have: ascending, at most CAPL_LABEL_MAX. Returns how many. */
CAPL_API int capl_captcha_widths(const capl_captcha *gen, int widths[CAPL_LABEL_MAX]);
/* Spells labels out into text (capl_captcha_length(gen) + 1 bytes); returns the number of characters. */
CAPL_API int capl_captcha_text(const capl_captcha *gen, const int32_t *labels, char *text);

CAPL_API int capl_captcha_width(const capl_captcha *gen); /* px of the widest image */
CAPL_API int capl_captcha_height(const capl_captcha *gen);
CAPL_API int capl_captcha_length(const capl_captcha *gen);   /* T, characters of the longest text */
CAPL_API int capl_captcha_shortest(const capl_captcha *gen); /* characters of the shortest */
CAPL_API const char *capl_captcha_charset(const capl_captcha *gen); /* expanded; borrowed from gen */
/* Path of the i-th font in use, NULL past the last; borrowed from gen. */
CAPL_API const char *capl_captcha_font(const capl_captcha *gen, int i);

/* Writes images 0..n-1 of seed as dir/TEXT_INDEX.png (RGB; index zero-padded) with `threads` threads
** (0 = the calling thread). dir is made if its parent exists. Each file appears whole or not at all.
** stop: asked before each, may be NULL; true gives up with EINTERRUPT.
** EIO naming the file; EVALUE if the charset holds '/', '_' or '.', which file names cannot carry. */
CAPL_API capl_status capl_captcha_save(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir,
                                       int threads, bool (*stop)(void));

/* The same as an LMDB database in dir, records in order of the index, texts as labels. As capl_lmdb_create and _append. */
CAPL_API capl_status capl_captcha_pack(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir, int threads,
                                       bool (*stop)(void));
/* Version of FreeType in use, as 2.12.1: with the font file, what images depend on beside their options. */
CAPL_API const char *capl_freetype_version(void);

/* ---- image files ----------------------------------------------------------------------------- */

typedef struct {
  uint8_t *pixels; /* H,W,C; owned, grown by the readers, freed by capl_image_fini */
  size_t capacity; /* bytes */
  int width, height, channels;
} capl_image; /* start from {0} */

CAPL_API void capl_image_fini(capl_image *image);

/* Reads any colour type and depth as u8. channels: 1, 3, or 0 = what the file has (gray or RGB); alpha
** is composited on white. image's buffer is reused when large enough.
** EIO (cannot be opened or read), EFORMAT (damaged, empty, or another kind of file, which is named),
** EVALUE (more than 64 megapixels), ENOMEM. Messages start with the path. */
CAPL_API capl_status capl_png_read(const char *path, int channels, capl_image *image);
/* The same from memory; name stands for the path in messages. */
CAPL_API capl_status capl_png_decode(const void *bytes, size_t size, const char *name, int channels,
                                     capl_image *image);
/* The same for PNG or JPEG, whichever the first bytes are. JPEG: baseline and progressive; gray is its luma; turned upright
** by its EXIF orientation; CMYK becomes RGB. EFORMAT also for damage that other readers pass over with gray pixels, and
** for 12-bit, arithmetic and lossless coding. */
CAPL_API capl_status capl_image_read(const char *path, int channels, capl_image *image);
CAPL_API capl_status capl_image_decode(const void *bytes, size_t size, const char *name, int channels, capl_image *image);

typedef struct {
  const char *format;          /* "PNG", "JPEG"; constant */
  int width, height, channels; /* as the file says; channels with alpha */
} capl_image_info;

/* What the header says; nothing is decoded. Errors as capl_image_decode. */
CAPL_API capl_status capl_image_probe(const void *bytes, size_t size, const char *name, capl_image_info *info);
/* The bytes of such a file. *bytes: caller frees with free(). EVALUE, ENOMEM. */
CAPL_API capl_status capl_png_encode(const uint8_t *pixels, int width, int height, int channels, uint8_t **bytes, size_t *size);
/* Writes H,W,channels u8 (1 or 3) to a temporary name and renames it. EIO, EVALUE. */
CAPL_API capl_status capl_png_write(const char *path, const uint8_t *pixels, int width, int height,
                                    int channels);

/* ---- sources --------------------------------------------------------------------------------- */

typedef enum { CAPL_CASE_KEEP, CAPL_CASE_UPPER, CAPL_CASE_LOWER } capl_case; /* of ASCII letters */

typedef struct capl_source capl_source; /* refcounted; a loader holds its own reference */

typedef struct {
  int width, height;   /* px of the samples; 0, 0 = those of the first file */
  bool resize;         /* files of another size are stretched (bicubic, as model.h does); else they are errors */
  /* Ascending, with a height and without width and resize: every image is brought to that height (by the same filter),
  ** keeps its proportions, and is filled up on the right with the median of its right edge to the smallest of
  ** these that holds it; one that none holds is squeezed into the last. */
  int widths[CAPL_WIDTHS_MAX];
  int n_widths;
  int width_step;      /* > 0: these are found, multiples of it, by the files' headers */
  bool (*stop)(void);  /* asked while headers are read; true gives up with EINTERRUPT. NULL = never */
  int channels;        /* 1 or 3; 0 = 1 */
  const char *charset; /* may hold ranges; NULL = the images have no labels (T = 0) */
  int length;          /* T, 1..CAPL_LABEL_MAX; 0 = 4 */
  int length_min;      /* labels have length_min..T characters, the rest is -1; 0 = T, or 1 if variable */
  bool variable;       /* labels may be shorter than T */
  capl_case letters;   /* what labels are brought to before anybody looks at them */
} capl_folder_options;

/* All *.png, *.jpg and *.jpeg below dir (any case, any depth), sorted bytewise by path. Labels are set by the caller,
** who knows the naming rule: capl_source_name, then capl_source_set_label for each sample.
** EIO if dir cannot be listed; EVALUE if it holds none or an option is out of range. */
CAPL_API capl_status capl_source_folder_new(const char *dir, const capl_folder_options *options,
                                            capl_source **source);
/* How many images of kinds that are not read (GIF, WebP, BMP …) lie in a folder beside those of its source, and the path of
** the first of them below it, borrowed; 0 and NULL for other sources. */
CAPL_API uint32_t capl_source_left_out(const capl_source *source, const char **first);

typedef enum { CAPL_LIST_AUTO, CAPL_LIST_TSV, CAPL_LIST_JSONL, CAPL_LIST_CSV } capl_list_format;

typedef struct {
  capl_folder_options images;
  capl_list_format format; /* auto: by the file's name, else by its first line */
  const char *root;        /* folder that paths begin at; NULL = the list's own */
  const char *path_key;    /* column or key of the path; NULL = the first of path, file, filename, image */
  const char *label_key;   /* of the label; NULL = the first of label, text */
  char separator;          /* of CSV; 0 = ',' */
} capl_list_options;

/* The images that a list names, in its order: lines of path TAB label, JSON objects one per line, or CSV with a header.
** UTF-8. With a charset every line must have a label; without one labels are kept as texts.
** EIO if the list cannot be read; EFORMAT naming file and line for a broken one; EVALUE if it is empty or an option is
** out of range. */
CAPL_API capl_status capl_source_list_new(const char *file, const capl_list_options *options, capl_source **source);
typedef struct {
  capl_folder_options images;
  uint64_t memory;    /* bytes of files held in memory; more lie in a temporary file. 0 = a quarter of the machine's */
  bool (*stop)(void); /* asked while the database is read; true gives up with EINTERRUPT. NULL = never */
} capl_lmdb_options;

/* The records of an LMDB database in the convention of text recognition: num-samples, and for each i from 1 on
** image-%09d, a PNG or JPEG file, and label-%09d. path: the database's folder, or its file. All of it is read here, by a
** process of its own, for liblmdb does not survive every file.
** EIO if it cannot be read; EFORMAT for another kind of file, a damaged one (naming the record), a missing record, a wrong
** num-samples; EVALUE if it is empty; EUNSUPPORTED if the program capl-lmdb is missing. */
CAPL_API capl_status capl_source_lmdb_new(const char *path, const capl_lmdb_options *options, capl_source **source);

/* Writes such a database: the folder dir appears whole at the commit, or not at all. One thread at a time. */
typedef struct capl_lmdb_writer capl_lmdb_writer;
/* EIO if dir is there already or cannot be made. *writer: caller frees. */
CAPL_API capl_status capl_lmdb_create(const char *dir, capl_lmdb_writer **writer);
/* The next record: an encoded image and its text (NULL = none). EIO (disk full), EVALUE for an image that is empty or
** above 64 MiB, a text above 4095 bytes, a text for some records only. */
CAPL_API capl_status capl_lmdb_append(capl_lmdb_writer *writer, const void *image, size_t size, const char *text);
/* Puts everything on disk and dir in its place. EIO; EVALUE if no record was written. */
CAPL_API capl_status capl_lmdb_commit(capl_lmdb_writer *writer);
/* What is not committed is removed. NULL is fine. */
CAPL_API void capl_lmdb_free(capl_lmdb_writer *writer);
/* All samples of a source of files as they are, with their texts. Errors also as capl_image_probe. stop: may be NULL. */
CAPL_API capl_status capl_lmdb_pack(capl_source *source, const char *dir, bool (*stop)(void));

/* Fresh images: sample id of epoch e is image e * 2^32 + id of seed. fixed: the same images in every
** epoch, none of which a fresh source of that seed ever gives (validation, test). count: samples per
** epoch, 0 = 2^32 - 1. Holds a reference to gen. */
CAPL_API capl_status capl_source_captcha_new(capl_captcha *gen, uint64_t seed, int channels, uint32_t count,
                                             bool fixed, capl_source **source);
/* The same of images of several widths (the gen's options say grows): each is filled up on the right with the median of its
** right edge to the smallest of n ascending widths that holds it. A sample's text is as long in every epoch, unless a
** difficulty wants it otherwise. EVALUE: one is wider than all; count is 0. */
CAPL_API capl_status capl_source_captcha_widths_new(capl_captcha *gen, uint64_t seed, int channels, uint32_t count, bool fixed,
                                                    const int *widths, int n, capl_source **source);
/* The samples id[0..count) of parent, in that order; holds a reference to it. Labels set here are set there.
** EVALUE if count is 0 or an id does not exist; ENOMEM. */
CAPL_API capl_status capl_source_subset_new(capl_source *parent, const uint32_t *id, uint32_t count,
                                            capl_source **source);
enum { CAPL_SHA256_TEXT = 65 }; /* 64 hexadecimal digits and the end */

/* Draws images 0..n-1 of seed again with `threads` threads and hashes them: SHA-256 over the SHA-256 of each one's pixels
** (H*W*3) and text, in order. kept: what they are compared with, or NULL: a source of RGB images in order, or of files
** named as capl_captcha_save names them. stop: as there.
** EVALUE naming the first image that differs, is missing or does not belong there; EIO, EFORMAT for one that cannot be
** read; ENOMEM. */
CAPL_API capl_status capl_captcha_compare(const capl_captcha *gen, uint64_t seed, uint32_t n, capl_source *kept,
                                          int threads, bool (*stop)(void), char sha256[CAPL_SHA256_TEXT]);
CAPL_API capl_source *capl_source_ref(capl_source *source);
CAPL_API void capl_source_unref(capl_source *source); /* NULL is fine */

CAPL_API uint32_t capl_source_count(const capl_source *source);
CAPL_API int capl_source_width(const capl_source *source);
CAPL_API int capl_source_height(const capl_source *source);
CAPL_API int capl_source_channels(const capl_source *source);
/* Ascending px that its images may have, of which capl_source_width is the last; *n = 0: all are that wide. Borrowed. */
CAPL_API const int *capl_source_widths(const capl_source *source, int *n);
/* px of the width that sample id has in a batch, and bytes of its pixels (H,W,C). */
CAPL_API int capl_source_width_of(const capl_source *source, uint32_t id);
CAPL_API size_t capl_source_pixels_bytes(const capl_source *source, uint32_t id);
/* Images that are squeezed because they are wider than the widest; the widest of them is *id, *px at the source's height. */
CAPL_API uint32_t capl_source_squeezed(const capl_source *source, uint32_t *id, int *px);
CAPL_API int capl_source_length(const capl_source *source);          /* T, 0 = no labels */
CAPL_API int capl_source_length_min(const capl_source *source);      /* characters of the shortest text there may be; <= T */
CAPL_API bool capl_source_fixed(const capl_source *source);          /* a sample is the same in every epoch */
CAPL_API const char *capl_source_charset(const capl_source *source); /* expanded, "" = none; borrowed */
/* Path of sample i below the folder's dir; NULL for sources without files or i out of range. Borrowed. */
CAPL_API const char *capl_source_name(const capl_source *source, uint32_t i);
/* Not while a loader runs. EVALUE naming the file for a character outside the charset or a wrong length; the
** sample then counts as bad: a loader that stops raises the same error, one that skips replaces it. */
CAPL_API capl_status capl_source_set_label(capl_source *source, uint32_t i, const char *text);
/* The label of sample i as it was given, NULL = none was. Borrowed until one is set. */
CAPL_API const char *capl_source_text(const capl_source *source, uint32_t i);
/* Gives sample i of a source of files a text that is held against no charset: for packing and looking. ESTATE, ENOMEM. */
CAPL_API capl_status capl_source_set_text(capl_source *source, uint32_t i, const char *text);
/* Every character of the labels that were given, sorted bytewise, "" = there is none. */
CAPL_API void capl_source_characters(const capl_source *source, char characters[256]);
/* Holds the labels of a source of files that was opened without a charset against one. Not while a loader runs; parts of
** the source that were made before stay as they are. ESTATE for other sources; EVALUE as opening. */
CAPL_API capl_status capl_source_set_charset(capl_source *source, const char *charset, int length_min, int length);
/* Narrows the length of labels to what the good ones of a source of files have; as it was when none is good. */
CAPL_API capl_status capl_source_fit_length(capl_source *source);
/* What is wrong with sample i's label: EVALUE as capl_source_set_label, ESTATE if it has none. */
CAPL_API capl_status capl_source_check_label(const capl_source *source, uint32_t i);
/* A number in [0, 1) that depends on the bytes of sample i's file alone, evenly spread: files with a share below 0.1 are
** a tenth of all, always the same ones, and never hold a copy of another part's. EIO; ESTATE for a source without files. */
CAPL_API capl_status capl_source_share(capl_source *source, uint32_t i, double *share);
/* The same of any bytes, such as the name of a group. */
CAPL_API double capl_share_of(const void *bytes, size_t size);
/* What would change the samples, as 16 hexadecimal digits: names, sizes and times of files, what a generator was asked for, its
** fonts and first samples. Two runs on one machine that tell the same had the same data. EIO, ENOMEM; what reading raises. */
enum { CAPL_SOURCE_HASH_TEXT = 17 };
CAPL_API capl_status capl_source_hash(capl_source *source, char hash[CAPL_SOURCE_HASH_TEXT]);

/* SHA-256 of names, texts and bytes of all files, in their order: the same for copies of a set on any machine. */
typedef struct {
  uint32_t files;
  uint64_t bytes;
  char sha256[65];
} capl_content;

/* Reads every file. stop: asked between them, may be NULL. ESTATE: samples that are no files, or stopped; EIO. */
CAPL_API capl_status capl_source_content(capl_source *source, bool (*stop)(void), capl_content *content);

/* ---- looking at files ---- */

typedef struct {
  const char *format;          /* "PNG", "JPEG"; NULL = it cannot be read */
  int width, height, channels; /* as its header says */
  uint64_t bytes;
  uint64_t content, pixels;    /* hashes: of the file, of the image as RGB (if it was decoded) */
  /* If it was decoded: by how much pixels differ from the median of the image's border, on average, in levels: the luma of
  ** darker ones, of lighter ones, and of all in their channel that differs most. */
  float darker, lighter, differ;
  char *message;               /* what is wrong with it; NULL = nothing */
} capl_file_facts;

typedef struct capl_scan capl_scan;

/* Looks at every file of a source; pixels: decodes them too. threads: 0 = the calling one alone. stop: asked now and then,
** true gives up with EINTERRUPT; NULL = never. *scan: caller frees. ESTATE for a source without files; EVALUE; ENOMEM. */
CAPL_API capl_status capl_scan_new(capl_source *source, bool pixels, int threads, bool (*stop)(void), capl_scan **scan);
CAPL_API void capl_scan_free(capl_scan *scan); /* NULL is fine */
/* NULL past the last. Borrowed. */
CAPL_API const capl_file_facts *capl_scan_facts(const capl_scan *scan, uint32_t i);

typedef struct {
  uint32_t id, first; /* sample id is the same as sample first */
} capl_same;

/* Samples of scan b that scan a has too; b NULL: samples of a that are the same as an earlier one. By their bytes, or
** (pixels) by what is seen where the bytes differ; those of equal hashes are read again for it. Sorted by id. *pairs:
** caller frees with free(). ESTATE; EIO, EFORMAT: a file that cannot be read any more; ENOMEM. */
CAPL_API capl_status capl_scan_same(const capl_scan *a, const capl_scan *b, bool pixels, capl_same **pairs, uint32_t *n);

/* ---- fields: what a sample has beside its image and its text ---- */

enum { CAPL_FIELDS_MAX = 4, CAPL_FIELD_NAME = 24 };

/* Coordinates are px; the image spans 0..W and 0..H, so the centre of the pixel at the top left is (0.5, 0.5). */
typedef enum {
  CAPL_FIELD_MASK,   /* u8 (H,W): a class per pixel */
  CAPL_FIELD_POINTS, /* f32 (P,3): x, y, 1 = visible or 0 = not */
  CAPL_FIELD_BOXES,  /* f32 (B,5): left, top, right, bottom, class; class -1 = there is none */
  CAPL_FIELD_VALUES, /* f32 of any shape: numbers that no augmentation touches */
} capl_field_kind;

typedef struct {
  char name[CAPL_FIELD_NAME]; /* in batches too: batch.mask, batch.points */
  capl_field_kind kind;
  int ndim, size[3]; /* of one sample */
} capl_field;

/* Where one sample lies. What the source has not, or nobody wants, is NULL. */
typedef struct {
  uint8_t *pixels;               /* (H,W,C) */
  int32_t *labels;               /* (T) class ids; -1 past the end of a shorter text */
  void *field[CAPL_FIELDS_MAX];  /* by number */
} capl_sample;

CAPL_API int capl_source_fields(const capl_source *source);
/* NULL past the last. Borrowed. */
CAPL_API const capl_field *capl_source_field(const capl_source *source, int i);
/* Numbers, or bytes of a mask, that one sample's field has. */
CAPL_API size_t capl_field_count(const capl_field *field);
CAPL_API size_t capl_field_bytes(const capl_field *field);

/* Samples that lie in memory. */
typedef struct {
  uint32_t count;              /* N */
  const uint8_t *images;       /* (N,H,W,C); NULL = none */
  int width, height, channels; /* of them */
  const int32_t *labels;       /* (N,T) */
  int length;                  /* T, 0 = no labels */
  int classes;                 /* labels are -1..classes - 1; 0 = any from -1 on */
  const char *charset;         /* that they spell texts of; NULL = none */
  int n_fields;
  capl_field field[CAPL_FIELDS_MAX];
  const void *values[CAPL_FIELDS_MAX]; /* (N,…) each */
} capl_arrays;

/* Copies them. EVALUE: no sample, too many parts, labels out of range; ENOMEM. */
CAPL_API capl_status capl_source_arrays_new(const capl_arrays *arrays, capl_source **source);
/* Reads one sample. Thread-safe. */
CAPL_API capl_status capl_source_read(capl_source *source, uint32_t epoch, uint32_t id, const capl_sample *to);

/* ---- augmentation ---------------------------------------------------------------------------- */

typedef struct {
  float lo, hi; /* uniform; {0, 0} = the op is off */
} capl_range;

/* The ops, each with random numbers of its own: switching one on does not shift the others. Append only. */
typedef enum {
  CAPL_AUGMENT_ROTATE, CAPL_AUGMENT_SCALE, CAPL_AUGMENT_TRANSLATE_X, CAPL_AUGMENT_TRANSLATE_Y, CAPL_AUGMENT_SHEAR,
  CAPL_AUGMENT_CONTRAST, CAPL_AUGMENT_BRIGHTNESS, CAPL_AUGMENT_NOISE, CAPL_AUGMENT_INVERT, CAPL_AUGMENT_FLIP,
  CAPL_AUGMENT_FLIP_VERTICAL, CAPL_AUGMENT_CROP, CAPL_AUGMENT_PERSPECTIVE, CAPL_AUGMENT_ELASTIC, CAPL_AUGMENT_GAMMA,
  CAPL_AUGMENT_SATURATION, CAPL_AUGMENT_HUE, CAPL_AUGMENT_BLUR, CAPL_AUGMENT_ERASE, CAPL_AUGMENT_MIX,
  CAPL_AUGMENT_OPS
} capl_augment_op;

enum {
  CAPL_AUGMENT_COINS = 15, /* coins that ops may share */
  CAPL_SWAPS_MAX = 32,     /* pairs that a flip exchanges */
  CAPL_BEND_SIDE = 16000,  /* px: perspective and elastic work on images up to this size */
};

/* Mixing two samples: the first one's share is drawn from Beta(alpha, alpha). */
typedef struct {
  float alpha; /* 0.01..4 */
  float p;     /* probability; 0 = off */
} capl_mix;

/* Pairs that change places when a sample is mirrored. */
typedef struct {
  bool declared; /* said, if only that there are none */
  uint8_t count, pair[CAPL_SWAPS_MAX][2];
} capl_swaps;

/* All zero = off. Order: gamma, blur; one geometry (crop, flip, shear, scale, rotate, translate, perspective, elastic;
** bilinear); colour (saturation, hue, contrast about the mean of the image as read, brightness, inversion); clamp to 0..255;
** noise; clamp and round; mixup or cutmix; erase. Masks, points and boxes move along; colours are the image's alone.
** engine/data/augment.h says to the bit what each op does; every instruction set and device makes the same levels. */
typedef struct {
  capl_range rotate;      /* degrees, positive = counter-clockwise */
  capl_range scale;       /* factor, > 0; above 1 enlarges */
  capl_range translate_x; /* share of the width, positive = right */
  capl_range translate_y; /* share of the height, positive = down */
  capl_range shear;       /* degrees; moves rows sideways */
  capl_range contrast;    /* factor, >= 0 */
  capl_range brightness;  /* factor, >= 0 */
  capl_range noise;       /* standard deviation in levels of 255, >= 0 */
  capl_range crop;        /* share of the area that is kept and stretched to the whole, 0.01..1 */
  capl_range crop_aspect; /* width / height of that part, in units of the image's; {0, 0} = 3/4..4/3 */
  capl_range perspective; /* each corner moves inwards by up to this share of half the width and height, 0..0.95 */
  capl_range elastic;     /* px: each of 8 x 8 places moves by up to this much in x and y, 0..1000 */
  capl_range gamma;       /* exponent of levels / 255, 0.05..20; above 1 darkens */
  capl_range saturation;  /* factor, >= 0; 0 = gray. Gray images: nothing */
  capl_range hue;         /* shares of a full turn, -0.5..0.5. Gray images: nothing */
  capl_range blur;        /* standard deviation of a Gaussian in px, 0.05..10 */
  capl_range erase;       /* share of the area of a rectangle that becomes erase_value, 0..1 */
  float invert;           /* probability, 0..1; likewise: */
  float flip;             /* left and right change places */
  float flip_vertical;    /* top and bottom change places */
  capl_mix mixup;         /* a weighted sum with another sample; of masks, the one with the larger share */
  capl_mix cutmix;        /* a rectangle comes from another sample, mask and all. mixup.p + cutmix.p <= 1 */
  float skip[CAPL_AUGMENT_OPS]; /* probability that a sample goes without the op, 0..1; not for flips, invert and mix */
  /* 0 = the op's own coin decides that. Ops with the same other number have one coin in common: those with the same skip are
  ** applied together, and one with a larger skip only where those with a smaller one are. */
  uint8_t coin[CAPL_AUGMENT_OPS];
  bool fill;              /* outside the source: false = nearest edge pixel, true = fill_value */
  uint8_t fill_value;
  uint8_t mask_fill;      /* the class there, if fill */
  uint8_t erase_value;
  uint8_t blur_size;      /* 3, 5 or 7 px; 0 = 3 up to a deviation of 0.8, 5 up to 1.4, else 7 */
  bool flip_text;         /* text may be mirrored */
  capl_swaps class_swaps; /* of masks and boxes; must be declared for flips of either */
  capl_swaps point_swaps; /* of points by number; must be declared for flips of points */
} capl_augment_options;

/* EVALUE naming the op whose range is inverted, not finite or out of bounds. */
CAPL_API capl_status capl_augment_check(const capl_augment_options *options);
/* The same, and that they suit a source. EVALUE: it has no images; they would be flipped, and nobody said what becomes of its
** text, classes or points; two samples would be mixed that have points or boxes, or neither text nor a mask; sizes. */
CAPL_API capl_status capl_augment_check_source(const capl_augment_options *options, const capl_source *source);
/* One image, in (H,W,C) -> out (H,W,C), never the same memory; without mixing. The numbers drawn are a function of
** (seed, epoch, sample). *changed (may be NULL): whether any op applied. ENOMEM, EVALUE. */
CAPL_API capl_status capl_augment_image(const capl_augment_options *options, uint64_t seed, uint32_t epoch,
                                        uint32_t sample, const uint8_t *in, int height, int width, int channels,
                                        uint8_t *out, bool *changed);

/* ---- loader ---------------------------------------------------------------------------------- */

typedef enum { CAPL_PIXEL_F32, CAPL_PIXEL_BF16, CAPL_PIXEL_U8, CAPL_PIXEL_F16 } capl_pixel_type;

typedef enum {
  CAPL_NORM_STANDARDISE, /* per image: (x - mean) / deviation over all its values */
  CAPL_NORM_UNIT,        /* x / 255 */
  CAPL_NORM_MEAN_STD,    /* (x / 255 - mean[c]) / std[c] */
} capl_norm;

/* Where a loader keeps levels, labels and fields that are the same in every epoch, so that each is decoded once: nowhere; in
** memory; in a file, which later runs use too; on the device. auto: on a device when they take at most a quarter of its
** free memory, else in memory when they take at most half of what is available. */
typedef enum { CAPL_CACHE_AUTO, CAPL_CACHE_NONE, CAPL_CACHE_RAM, CAPL_CACHE_DISK, CAPL_CACHE_DEVICE } capl_cache;

typedef enum { CAPL_ON_ERROR_STOP, CAPL_ON_ERROR_SKIP } capl_on_error;

/* Whether batches wait for a device in page-locked memory, which it copies from directly; auto: where it can be had. */
typedef enum { CAPL_PIN_AUTO, CAPL_PIN_ON, CAPL_PIN_OFF } capl_pin;

/* Threads that read, draw or augment images together. */
enum { CAPL_WORKERS_MAX = 256 };

typedef struct {
  int batch;    /* N >= 1 */
  int workers;  /* threads, at most CAPL_WORKERS_MAX; 0 = capl_loader_next does the work itself */
  int prefetch; /* batches made ahead; 0 = 2 */
  uint64_t seed;
  bool shuffle;   /* a new order each epoch, a function of (seed, epoch) */
  bool drop_last; /* false: the last batch of an epoch may be smaller; with several widths, the last of each */
  int rank, world; /* batch t of all ranks is batch * world samples, of which this rank takes block number rank; 0, 0 = alone */
  bool once;       /* each sample is in one batch, as one rank alone makes them: ranks may get one batch less, or none.
                   ** false: all get equally many, and what the last ones lack of a round is shared out */
  int parts;       /* such a round is cut into so many parts of nearly one size, a multiple of world; 0 = world */
  capl_on_error on_error;
  double max_bad; /* skip: an epoch fails that has met more bad samples than this share of its samples, one apart; 0 = 0.01 */
  capl_pixel_type type;
  capl_norm norm; /* not for u8, which keeps its levels */
  float mean[3], std[3];
  const capl_augment_options *augment; /* copied; NULL = none */
  const struct capl_stage *stages;     /* in place of augment (schedule.h), copied */
  int n_stages;                        /* 0 = none */
  struct capl_device *device;          /* makes the batches (capl_loader_make); NULL = the host does */
  const struct capl_feed_ops *feed;    /* how it does that (feed.h), constant; NULL = the host makes them */
  const char *device_name;             /* for reports, constant */
  capl_cache cache;
  const char *cache_dir; /* folder of files for disk; NULL = $XDG_CACHE_HOME/capl/data, else ~/.cache/capl/data. Copied */
  capl_pin pin;
  bool (*stop)(void); /* asked while a whole set is read; true gives up with EINTERRUPT. NULL = never */
} capl_loader_options;

typedef struct capl_loader capl_loader;

/* Borrowed from the loader until its next call that is not a getter. */
typedef struct {
  const void *images;    /* (N,H,W,C) of the loader's pixel type, 64-byte aligned; NULL if a device makes them or the source
                         ** has none */
  const int32_t *labels; /* (N,T); NULL if T = 0, or a device makes them */
  const int32_t *labels2; /* (N,T) of the samples that these are mixed with, and */
  const float *mix;       /* (N) the share of their own label; NULL unless an augmentation may mix */
  const void *field[CAPL_FIELDS_MAX]; /* (N,…) by number, 64-byte aligned, in host memory; NULL past the last */
  int width;              /* W; 0 = no images */
  const int32_t *used;    /* (N) px of W that the image takes, of sources with several widths, else NULL */
  const int32_t *lengths; /* (N) labels before the first -1, in host memory; NULL if T = 0 */
  const uint32_t *ids;   /* (N) sample numbers in the source, after substitution */
  int count;             /* N; 0 = the epoch has ended */
  int padded;            /* rows at the end that repeat a sample, where a round has fewer than parts */
  int together;          /* samples of all ranks in this round; 0: one rank, or samples come once */
  int substituted;       /* rows that stand in for a bad sample */
} capl_batch;

/* What has been handed out, not what was prefetched. */
typedef struct {
  uint64_t seed, epoch;
  uint64_t position; /* samples of the epoch's global order (all ranks) handed out */
} capl_loader_state;

enum { CAPL_LOADER_STATE_BYTES = 24 };

/* The same as bytes for a file: three numbers, lowest byte first. */
CAPL_API void capl_loader_state_pack(const capl_loader_state *state, uint8_t bytes[CAPL_LOADER_STATE_BYTES]);
CAPL_API void capl_loader_state_unpack(const uint8_t bytes[CAPL_LOADER_STATE_BYTES], capl_loader_state *state);

typedef struct {
  uint64_t batches, samples; /* handed out since the loader was made */
  uint64_t augmented;        /* of those samples, how many an augmentation changed */
  uint64_t substituted;      /* of those samples, how many stand in for a bad one */
  uint32_t bad;              /* different bad samples among them, as capl_loader_bad_get tells them */
  double wait_seconds;       /* time capl_loader_next spent waiting or, without workers, working */
  double seconds;            /* time from the beginning of each epoch to its end, as told: what wait_seconds is a share of */
  double work_seconds;       /* time the threads spent making samples, estimated from one in 16 of them … */
  double augment_seconds;    /* … and of that in augmentation, normalising included */
} capl_loader_stats;

/* Starts the threads. Holds a reference to source. *loader: caller frees. EVALUE, ENOMEM. */
CAPL_API capl_status capl_loader_new(capl_source *source, const capl_loader_options *options,
                                     capl_loader **loader);
/* Stops the threads (after their current sample) and releases everything. NULL is fine. */
CAPL_API void capl_loader_free(capl_loader *loader);

/* Begins an epoch at its first sample; what was prefetched of another is dropped. EVALUE above 2^31 - 1. */
CAPL_API capl_status capl_loader_epoch(capl_loader *loader, uint64_t epoch);
/* The next batch of the epoch; batch->count is 0 after the last. When a sample is bad and on_error is stop, all
** batches before it come first, then its error, again at each call. ESTATE before the first epoch. */
CAPL_API capl_status capl_loader_next(capl_loader *loader, capl_batch *batch);

/* Of a loader with a device, after each batch that has rows: queues the making of that batch in the device's memory.
** images: (N,H,W,C) of the loader's pixel type; labels: (N,T), NULL if T = 0. ESTATE without such a batch. */
CAPL_API capl_status capl_loader_make(capl_loader *loader, void *images, int32_t *labels);
/* Likewise, but the batch stays the one to be made: for measuring. */
CAPL_API capl_status capl_loader_make_once_more(capl_loader *loader, void *images, int32_t *labels);
/* How the batches come to be: "made on the host", "resident on cuda:0, 458 MB", "streamed to cuda:0, page-locked: why", and
** behind that ", cached in memory, 458 MB", ", cached in FILE" or ", not cached: why". Known from the first epoch on. Borrowed until the loader's next call. */
CAPL_API const char *capl_loader_path(const capl_loader *loader);

/* Samples this rank gets per epoch, all ranks together get, and this rank's batches. */
CAPL_API uint64_t capl_loader_samples(const capl_loader *loader);
CAPL_API uint64_t capl_loader_all_samples(const capl_loader *loader);
CAPL_API uint64_t capl_loader_batches(const capl_loader *loader);
CAPL_API uint64_t capl_loader_batches_left(const capl_loader *loader); /* of the epoch that has begun */
CAPL_API capl_source *capl_loader_source(const capl_loader *loader); /* borrowed */
CAPL_API capl_pixel_type capl_loader_type(const capl_loader *loader);
CAPL_API struct capl_device *capl_loader_device(const capl_loader *loader); /* that makes its batches; NULL = the host does */
CAPL_API void capl_loader_state_get(const capl_loader *loader, capl_loader_state *state);
/* Continues exactly where the state was taken, under the same source and options. EVALUE if the position is past
** the epoch's end. */
CAPL_API capl_status capl_loader_state_set(capl_loader *loader, const capl_loader_state *state);
CAPL_API void capl_loader_stats_get(capl_loader *loader, capl_loader_stats *stats);
/* i-th bad sample in order of its number that the batches handed out so far, or the one that failed, needed: its id and
** what was wrong (borrowed until the loader's next call that is not a getter). false when i is past the last. The list is
** the same for any number of threads. */
CAPL_API bool capl_loader_bad_get(capl_loader *loader, uint32_t i, uint32_t *id, const char **message);

/* Place position -> sample number: a bijection of [0, n) for each (seed, epoch). position < n. */
CAPL_API uint32_t capl_shuffle(uint64_t seed, uint64_t epoch, uint32_t n, uint32_t position);

#ifdef __cplusplus
}
#endif
#endif
