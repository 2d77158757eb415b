/* source.h -- what gives samples: folders, lists, LMDB databases, arrays, parts of other sources.
**
** A source answers "give me sample id of epoch e". Everything here works on raw buffers and knows no tensor. Images are
** H,W,C u8 in memory (C = 1 gray, 3 RGB).
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SOURCE_H
#define CAPL_SOURCE_H

#include "capl/field.h"
#include "capl/image.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CAPL_WIDTHS_MAX = 16 }; /* widths that images of one source may have */

/* How hard an image is, between the easiest and what the generator's options say. */
typedef struct {
  int length_lo, length_hi; /* characters, within the generator's range; 0 = its own end of it */
  float charset_share;      /* how many of the charset's letters occur, 0 (one of them) .. 1 (all); smaller sets are
                            ** parts of larger ones, and the same for every seed */
  float noise;              /* 0..1 of the lines, dots, arcs and particles */
  float warp;               /* 0..1 of turning and of pushing letters out of shape */
} capl_difficulty;

typedef struct capl_source capl_source; /* refcounted; a loader holds its own reference */

/* A mask for each image: a gray or palette PNG of its size, whose levels, or numbers of colours, are classes. */
typedef struct {
  const char *ending; /* "_mask.png": a_mask.png lies beside a.jpg, and is no image itself; NULL = none, or: */
  const char *column; /* column or key of a list that has its path */
  const char *root;   /* folder in which masks lie as images do in theirs; NULL = the images' own */
  int classes;        /* it has 0..classes - 1, and 255 for pixels that do not count; 0 = any level */
  int n_values;       /* classes of which values are given; 0 = levels are numbers of classes */
  uint8_t value[256]; /* level of class k */
  const char *const *part; /* [n_parts], in place of all but root and classes: below root each image has files
                           ** IMAGE_PART.png, white where the part is. Part k is class k + 1; later ones cover earlier
                           ** ones, and where none is there is class 0 */
  int n_parts;
} capl_mask_files;

/* An image for each image, of its size: what a model shall make of it. */
typedef struct {
  const char *ending; /* "_target.png": a_target.png lies beside a.jpg, and is no image of the set; NULL = none */
  const char *column; /* of a list: it holds their paths, from root or the list's root on; NULL = the ending says it */
  const char *root;   /* folder in which they lie as images do in theirs; NULL = the images' own */
  int channels;       /* 1 or 3; 0 = as many as the images have */
} capl_target_files;

/* Points, boxes or numbers of each image: columns of a list that has a header, keys of JSON lines, or, in a folder,
** keys of the file x.json beside x.png. A key may hold a number, a list of them, or a list of points or boxes. */
typedef struct {
  char name[CAPL_FIELD_NAME];
  capl_field_kind kind;      /* no mask */
  const char *const *column; /* [n_columns] */
  int n_columns;
  int per_row; /* columns that make a point (2, 3) or a box (4, 5); 1 = each is a key with all numbers */
} capl_number_columns;

/* Fields that lie in files. Of images of several widths a mask is as wide as its image; padding is 255. */
typedef struct {
  capl_mask_files mask;
  capl_target_files target; /* values "target_image", (C,H,W) of 0..1; not with several widths */
  int n_numbers;
  capl_number_columns numbers[CAPL_FIELDS_MAX];
} capl_file_fields;

typedef struct {
  int width, height;   /* px of the samples; 0, 0 = those of the first file */
  bool resize;         /* files of another size are brought to it (bicubic, as model.h does); else they are errors */
  capl_letterbox letterbox; /* how, with resize */
  /* Ascending, with a height and without width and resize: every image is brought to that height (by the same filter),
  ** keeps its proportions, and is filled up on the right with the median of its right edge to the smallest of
  ** these that holds it; one that none holds is squeezed into the last. */
  int widths[CAPL_WIDTHS_MAX];
  int n_widths;
  int width_step;      /* > 0: these are found, multiples of it, by the files' headers */
  bool (*stop)(void);  /* asked while headers are read; true gives up with EINTERRUPT. NULL = never */
  int channels;        /* 1 or 3; 0 = 1 */
  const char *charset; /* of texts; may hold ranges; NULL = the images have no labels (T = 0), or: */
  const capl_vocab *classes; /* each image is of one of these (T = 1); NULL = texts */
  char several; /* each is of any of them: what separates their names in a label, '|'; T = the most; 0 = of one */
  int length;          /* T, 1..CAPL_LABEL_MAX; 0 = 4 */
  int length_min;      /* labels have length_min..T characters, the rest is -1; 0 = T, or 1 if variable */
  bool variable;       /* labels may be shorter than T */
  capl_folding folding; /* of labels, before anybody looks at them */
  capl_file_fields fields;
} capl_folder_options;

/* All *.png, *.jpg and *.jpeg below dir (any case, any depth), sorted bytewise by path. Labels are set by the caller,
** who knows the naming rule: capl_source_name, then capl_source_set_label for each sample.
** EIO if dir cannot be listed; EVALUE if it holds none or an option is out of range. */
CAPL_API capl_status capl_source_folder_new(const char *dir, const capl_folder_options *options,
                                            capl_source **source);
/* How many images of kinds that are not read (GIF, WebP, BMP …) lie in a folder beside those of its source, and the
** path of the first of them below it, borrowed; 0 and NULL for other sources. */
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

/* How many pixels of sample i's mask, as its file has it, are of each class; level 255 may stand for none. ESTATE for a
** source without masks in files; EIO, EFORMAT, EVALUE as reading it. */
CAPL_API capl_status capl_source_mask_counts(capl_source *source, uint32_t i, uint64_t count[256]);
/* Least, greatest and mean level of sample i's target image, from 0 to 1, in its file's size. ESTATE for a source without
** target images in files; errors as reading it. */
CAPL_API capl_status capl_source_target_levels(capl_source *source, uint32_t i, double level[3]);
/* The numbers that sample i's file gives for a field, `width` to a row: 3 of a point, 5 of a box, 1 of other numbers;
** in px of the image file. Borrowed; NULL = no such field, no such sample. */
CAPL_API const float *capl_source_numbers(const capl_source *source, int field, uint32_t i, int *rows, int *width);

typedef struct {
  capl_folder_options images;
  uint64_t memory;    /* bytes of files held in memory; more lie in a temporary file. 0 = a quarter of the machine's */
  bool (*stop)(void); /* asked while the database is read; true gives up with EINTERRUPT. NULL = never */
} capl_lmdb_options;

/* The records of an LMDB database in the convention of text recognition: num-samples, and for each i from 1 on
** image-%09d, a PNG or JPEG file, and label-%09d; for fields mask-%09d, a PNG, and target-%09d, an image (any ending or
** column stands for either), and fields-%09d, a JSON object with the keys of numbers. path: the database's folder, or
** its file. All of it is read here, by a process of its own, for liblmdb does not survive every file.
** EIO if it cannot be read; EFORMAT for another kind of file, a damaged one (naming the record), a missing record, a
** wrong num-samples; EVALUE if it is empty; EUNSUPPORTED if the program capl-lmdb is missing. */
CAPL_API capl_status capl_source_lmdb_new(const char *path, const capl_lmdb_options *options, capl_source **source);

/* Writes such a database: the folder dir appears whole at the commit, or not at all. One thread at a time. */
typedef struct capl_lmdb_writer capl_lmdb_writer;
/* EIO if dir is there already or cannot be made. *writer: caller frees. */
CAPL_API capl_status capl_lmdb_create(const char *dir, capl_lmdb_writer **writer);
/* The next record: an encoded image and its text (NULL = none). EIO (disk full), EVALUE for an image that is empty or
** above 64 MiB, a text above 4095 bytes, a text for some records only. */
CAPL_API capl_status capl_lmdb_append(capl_lmdb_writer *writer, const void *image, size_t size, const char *text);
typedef struct {
  const void *image; /* an encoded image */
  size_t image_bytes;
  const char *text; /* its label; NULL = none */
  const void *mask; /* a PNG of classes; NULL = none */
  size_t mask_bytes;
  const void *target; /* an encoded target image; NULL = none */
  size_t target_bytes;
  const char *fields; /* a JSON object of numbers; NULL = none */
} capl_lmdb_record;
/* The same with a mask, a target image and numbers. EVALUE also for a part that some records only have. */
CAPL_API capl_status capl_lmdb_append_record(capl_lmdb_writer *writer, const capl_lmdb_record *record);
/* Puts everything on disk and dir in its place. EIO; EVALUE if no record was written. */
CAPL_API capl_status capl_lmdb_commit(capl_lmdb_writer *writer);
/* What is not committed is removed. NULL is fine. */
CAPL_API void capl_lmdb_free(capl_lmdb_writer *writer);
/* All samples of a source of files as they are, with their texts, masks, target images and numbers: the same options
** open it. Errors also as capl_image_probe. stop: may be NULL. */
CAPL_API capl_status capl_lmdb_pack(capl_source *source, const char *dir, bool (*stop)(void));

/* The samples id[0..count) of parent, in that order; holds a reference to it. Labels set here are set there.
** EVALUE if count is 0 or an id does not exist; ENOMEM. */
CAPL_API capl_status capl_source_subset_new(capl_source *parent, const uint32_t *id, uint32_t count,
                                            capl_source **source);
enum { CAPL_SHA256_TEXT = 65 }; /* 64 hexadecimal digits and the end */

CAPL_API capl_source *capl_source_ref(capl_source *source);
CAPL_API void capl_source_unref(capl_source *source); /* NULL is fine */

CAPL_API uint32_t capl_source_count(const capl_source *source);
CAPL_API int capl_source_width(const capl_source *source);
CAPL_API int capl_source_height(const capl_source *source);
CAPL_API int capl_source_channels(const capl_source *source);
/* How images came to that size. Borrowed. */
CAPL_API const capl_letterbox *capl_source_letterbox(const capl_source *source);
/* Ascending px that its images may have, of which capl_source_width is the last; *n = 0: all are that wide.
** Borrowed. */
CAPL_API const int *capl_source_widths(const capl_source *source, int *n);
/* px of the width that sample id has in a batch, and bytes of its pixels (H,W,C). */
CAPL_API int capl_source_width_of(const capl_source *source, uint32_t id);
CAPL_API size_t capl_source_pixels_bytes(const capl_source *source, uint32_t id);
/* Images that are squeezed because they are wider than the widest; the widest of them is *id, *px at the source's
** height. */
CAPL_API uint32_t capl_source_squeezed(const capl_source *source, uint32_t *id, int *px);
CAPL_API int capl_source_length(const capl_source *source);          /* T, 0 = no labels */
/* characters of the shortest text there may be; <= T */
CAPL_API int capl_source_length_min(const capl_source *source);
CAPL_API bool capl_source_fixed(const capl_source *source);          /* a sample is the same in every epoch */
CAPL_API const char *capl_source_charset(const capl_source *source); /* expanded, "" = none; borrowed */
/* What separates the names in its labels, where images are of several classes; 0 = of one. */
CAPL_API char capl_source_several(const capl_source *source);
/* What its labels are ids of; NULL = it has no labels, or numbers without names. Borrowed. */
CAPL_API const capl_vocab *capl_source_vocab(const capl_source *source);
/* Path of sample i below the folder's dir; NULL for sources without files or i out of range. Borrowed. */
CAPL_API const char *capl_source_name(const capl_source *source, uint32_t i);
/* Not while a loader runs. EVALUE naming the file for a character outside the charset or a wrong length; the
** sample then counts as bad: a loader that stops raises the same error, one that skips replaces it. */
CAPL_API capl_status capl_source_set_label(capl_source *source, uint32_t i, const char *text);
/* The label of sample i as it was given, NULL = none was. Borrowed until one is set. */
CAPL_API const char *capl_source_text(const capl_source *source, uint32_t i);
/* Gives sample i of a source of files a text that is held against no charset: for packing and looking. ESTATE,
** ENOMEM. */
CAPL_API capl_status capl_source_set_text(capl_source *source, uint32_t i, const char *text);
/* The label in a file beside sample i of a folder: ending ".txt", the one line of a.txt; ".json", a text or a whole
** number under key of a.json (NULL: label, text or class). Where images are of several classes also a line for each,
** or a list of names. *text: caller frees with free(). EIO, EFORMAT, ENOMEM. */
CAPL_API capl_status capl_source_label_beside(const capl_source *source, uint32_t i, const char *ending,
                                              const char *key, char **text);
/* Every character of the labels that were given, sorted by code point, "" = there is none. *characters: caller frees
** with free(). ENOMEM. */
CAPL_API capl_status capl_source_characters(const capl_source *source, char **characters);
/* Holds the labels of a source of files that was opened without a charset against one. Not while a loader runs; parts
** of the source that were made before stay as they are. ESTATE for other sources; EVALUE as opening. */
CAPL_API capl_status capl_source_set_charset(capl_source *source, const char *charset, int length_min, int length);
/* The same for names of classes. */
CAPL_API capl_status capl_source_set_classes(capl_source *source, const capl_vocab *classes);
/* Narrows the length of labels to what the good ones of a source of files have; as it was when none is good. */
CAPL_API capl_status capl_source_fit_length(capl_source *source);
/* What is wrong with sample i's label: EVALUE as capl_source_set_label, ESTATE if it has none. */
CAPL_API capl_status capl_source_check_label(const capl_source *source, uint32_t i);
/* A number in [0, 1) that depends on the bytes of sample i's file alone, evenly spread: files with a share below 0.1
** are a tenth of all, always the same ones, and never hold a copy of another part's. EIO; ESTATE for a source without
** files. */
CAPL_API capl_status capl_source_share(capl_source *source, uint32_t i, double *share);
/* The same of any bytes, such as the name of a group. */
CAPL_API double capl_share_of(const void *bytes, size_t size);
/* What would change the samples, as 16 hexadecimal digits: names, sizes and times of files, what a generator was asked
** for, its fonts and first samples. Two runs on one machine with the same hash had the same data. EIO, ENOMEM; what
** reading raises. */
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
  /* If it was decoded: by how much pixels differ from the median of the image's border, on average, in levels: the luma
  ** of darker ones, of lighter ones, and of all in their channel that differs most. */
  float darker, lighter, differ;
  float faded; /* of pixels of which a channel differs by 12 or more: share of those whose luma does by less than a
               ** quarter of it */
  char *message;               /* what is wrong with it; NULL = nothing */
} capl_file_facts;

typedef struct capl_scan capl_scan;

/* Looks at every file of a source; pixels: decodes them too. threads: 0 = the calling one alone. stop: asked now and
** then, true gives up with EINTERRUPT; NULL = never. *scan: caller frees. ESTATE for a source without files; EVALUE;
** ENOMEM. */
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
CAPL_API capl_status capl_scan_same(const capl_scan *a, const capl_scan *b, bool pixels, capl_same **pairs,
                                    uint32_t *n);

/* ---- samples ----------------------------------------------------------------------------------------- */

/* Where one sample lies. What the source has not, or nobody wants, is NULL. */
typedef struct {
  uint8_t *pixels;               /* (H,W,C) */
  int32_t *labels;               /* (T) class ids; -1 past the end of a shorter text */
  void *field[CAPL_FIELDS_MAX];  /* by number */
} capl_sample;

CAPL_API int capl_source_fields(const capl_source *source);
/* NULL past the last. Borrowed. */
CAPL_API const capl_field *capl_source_field(const capl_source *source, int i);

/* Samples that lie in memory. */
typedef struct {
  uint32_t count;              /* N */
  const uint8_t *images;       /* (N,H,W,C); NULL = none */
  int width, height, channels; /* of them */
  const int32_t *labels;       /* (N,T) */
  int length;                  /* T, 0 = no labels */
  int classes;                 /* labels are -1..classes - 1; 0 = any from -1 on */
  const char *charset;         /* that they spell texts of; NULL = none, or: */
  const capl_vocab *names;     /* of the classes; NULL = they have none */
  int n_fields;
  capl_field field[CAPL_FIELDS_MAX];
  const void *values[CAPL_FIELDS_MAX]; /* (N,…) each */
} capl_arrays;

/* Copies them. EVALUE: no sample, too many parts, labels out of range; ENOMEM. */
CAPL_API capl_status capl_source_arrays_new(const capl_arrays *arrays, capl_source **source);
/* Reads one sample. Thread-safe. */
CAPL_API capl_status capl_source_read(capl_source *source, uint32_t epoch, uint32_t id, const capl_sample *to);

#ifdef __cplusplus
}
#endif
#endif
