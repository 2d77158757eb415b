/* synth.h -- what draws data, as libcapl_synth: captchas, slider captchas, faces, a series of fine dust.
**
** A drawn sample is a pure function of the options, a seed and its number: sample id of epoch e is picture e * 2^32 +
** id. The bytes are the same for any number of threads and on every machine.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SYNTH_H
#define CAPL_SYNTH_H

#include "capl/source.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of capl that the library belongs to, as capl_version gives that of libcapl. */
CAPL_API const char *capl_synth_version(void);

enum {
  CAPL_OFTEN_MAX = 100,  /* how many times as often a generator may draw a character */
  CAPL_FONTS_MAX = 8,    /* fonts one generator mixes */
  CAPL_LETTERS_BYTES = 256 << 20, /* of rendered letters that a generator keeps, and as many of the other kind that
                                  ** the preset mixed has; what does not fit is rendered at each use */
};

/* ---- captchas ---------------------------------------------------------------------------------------- */

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
  bool grows;          /* longer texts have wider images: width is that of texts of the preset's own (shortest)
                       ** length, others' is in proportion to their characters, or by pitch */
  int pitch;           /* px by which each further character widens the image, 1 or more; 0 = as the preset has it.
                       ** Where it is given, or the preset's and no width, images of one width have the longest's */
  const char *fonts[CAPL_FONTS_MAX]; /* until NULL: paths of TrueType files, or bare names of installed ones. Each
                                     ** letter is
                                     ** of one of them. None = the preset's own, of which Noto Mono may be replaced
                                     ** by $CAPL_FONT */
  const char *often;   /* characters of the charset that come more often than the others; NULL = none */
  int times;           /* how many times as often, 1..CAPL_OFTEN_MAX; 0 = 1 */
  /* What only some presets have: see capl_style_option_at. */
  capl_captcha_range size, rotate, warp, spacing, rise, lines, arcs, curves, line_width, dots, dot_size, grain, smooth,
      contrast;
  capl_captcha_colours background, ink, line_ink;
  const char *style, *backdrop, *ink_per, *line_place; /* NULL = as the preset has it */
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
** shorter text. Thread-safe; takes no lock for letters. Of a charset of at most 256 symbols it allocates only when more
** threads draw at once than ever before; letters of a larger one are rendered at their first use. EVALUE for other
** channels; EFORMAT for a letter without ink; ENOMEM. */
CAPL_API capl_status capl_captcha_draw(const capl_captcha *gen, uint64_t seed, uint64_t index,
                                       int channels, uint8_t *pixels, int32_t *labels);

/* The same at a difficulty, which is part of what the image is a function of; NULL = {0, 0, 1, 1, 1}, all as the
** options say. EVALUE for a length outside the generator's range or a share outside 0..1. */
CAPL_API capl_status capl_captcha_draw_at(const capl_captcha *gen, uint64_t seed, uint64_t index,
                                          const capl_difficulty *difficulty, int channels, uint8_t *pixels,
                                          int32_t *labels);
/* The generator that draws an image, and says how wide it is: gen itself, or, where longer texts have wider images,
** that of the image's text. Borrowed. Pixels and labels of draw are for its width and gen's length. */
CAPL_API const capl_captcha *capl_captcha_member(const capl_captcha *gen, uint64_t seed, uint64_t index,
                                                 const capl_difficulty *difficulty);
/* px that images may have: ascending, at most CAPL_LABEL_MAX. Returns how many. */
CAPL_API int capl_captcha_widths(const capl_captcha *gen, int widths[CAPL_LABEL_MAX]);
/* Spells labels out into text (CAPL_LABEL_ROOM bytes); returns the number of characters. */
CAPL_API int capl_captcha_text(const capl_captcha *gen, const int32_t *labels, char *text);

CAPL_API int capl_captcha_width(const capl_captcha *gen); /* px of the widest image */
CAPL_API int capl_captcha_height(const capl_captcha *gen);
CAPL_API int capl_captcha_length(const capl_captcha *gen);   /* T, characters of the longest text */
CAPL_API int capl_captcha_shortest(const capl_captcha *gen); /* characters of the shortest */
CAPL_API const char *capl_captcha_charset(const capl_captcha *gen); /* expanded; borrowed from gen */
CAPL_API const capl_vocab *capl_captcha_vocab(const capl_captcha *gen); /* the same; borrowed likewise */
/* Bytes of the letters rendered so far and of their tables. */
CAPL_API size_t capl_captcha_letters_bytes(const capl_captcha *gen);
/* Path of the i-th font in use, NULL past the last; borrowed from gen. */
CAPL_API const char *capl_captcha_font(const capl_captcha *gen, int i);

/* Writes images 0..n-1 of seed as dir/TEXT_INDEX.png (RGB; index zero-padded) with `threads` threads
** (0 = the calling thread). dir is made if its parent exists. Each file appears whole or not at all.
** stop: asked before each, may be NULL; true gives up with EINTERRUPT.
** EIO naming the file; EVALUE if the charset holds '/', '_' or '.', which file names cannot carry. */
CAPL_API capl_status capl_captcha_save(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir,
                                       int threads, bool (*stop)(void));

/* The same as dir/TEXT/INDEX.png: a folder for each text, as for classes. */
CAPL_API capl_status capl_captcha_save_folders(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir,
                                               int threads, bool (*stop)(void));
/* The same as dir/INDEX.png, and dir/labels.jsonl with {"file": "07.png", "label": TEXT} for each: any charset. */
CAPL_API capl_status capl_captcha_save_list(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir,
                                            int threads, bool (*stop)(void));
/* The same as an LMDB database in dir, records in order of the index, texts as labels. As capl_lmdb_create and
** _append. */
CAPL_API capl_status capl_captcha_pack(const capl_captcha *gen, uint64_t seed, uint32_t n, const char *dir, int threads,
                                       bool (*stop)(void));
/* Version of FreeType in use, as 2.12.1: with the font file, what images depend on beside their options. */
CAPL_API const char *capl_freetype_version(void);

/* Fresh images: sample id of epoch e is image e * 2^32 + id of seed. fixed: the same images in every
** epoch, none of which a fresh source of that seed ever gives (validation, test). count: samples per
** epoch, 0 = 2^32 - 1. Holds a reference to gen. */
CAPL_API capl_status capl_source_captcha_new(capl_captcha *gen, uint64_t seed, int channels, uint32_t count,
                                             bool fixed, capl_source **source);
/* The same of images of several widths (the gen's options say grows): each is filled up on the right with the median of
** its right edge to the smallest of n ascending widths that holds it. A sample's text is as long in every epoch, unless
** a difficulty wants it otherwise. EVALUE: one is wider than all; count is 0. */
CAPL_API capl_status capl_source_captcha_widths_new(capl_captcha *gen, uint64_t seed, int channels, uint32_t count,
                                                    bool fixed, const int *widths, int n, capl_source **source);

/* ---- scenes ------------------------------------------------------------------------------------------ */

/* How many pictures, and which. */
typedef struct {
  uint64_t seed;
  uint32_t count; /* per epoch; 0 = 2^32 - 1 */
  bool fixed;     /* the same in every epoch, none of which a source of that seed without fixed ever gives */
  int channels;   /* 1 or 3; 0 = 3 */
} capl_scene_set;

/* ---- slider captchas ------------------------------------------------------------------------- */

enum { CAPL_SLIDER_DECOYS = 2 };

/* shape, what recipes call it, how often it comes in the styles shaded and outline */
#define CAPL_SLIDER_SHAPE_MAP(X)  \
  X(CIRCLE, "circle", 1, 0)       \
  X(SQUARE, "square", 1, 0)       \
  X(TRIANGLE, "triangle", 1, 0)   \
  X(HEXAGON, "hexagon", 1, 0)     \
  X(RECTANGLE, "rectangle", 1, 0) \
  X(ROUNDED, "rounded", 1, 0)     \
  X(POLYGON, "polygon", 1, 0)     \
  X(JIGSAW, "jigsaw", 6, 0)       \
  X(STAR, "star", 0, 1)           \
  X(CROSS, "cross", 0, 1)         \
  X(HEART, "heart", 0, 1)         \
  X(MOON, "moon", 0, 1)

/* shaded: dark gaps, pieces with a bright rim, drawn backgrounds. outline: gaps that are bright or merely outlined,
** pieces with a shadow around them, other shapes, textures as backgrounds: nothing that shaded shows. */
#define CAPL_SLIDER_STYLE_MAP(X) \
  X(SHADED, "shaded")            \
  X(OUTLINE, "outline")

/* what makes the gap hard to find, name, how many of 100 pictures have it alone; bits of the field "facts" */
#define CAPL_SLIDER_CONFUSION_MAP(X) \
  X(ROTATION, "rotation", 10)        \
  X(NOISE, "noise", 5)               \
  X(HIGHLIGHT, "highlight", 10)      \
  X(DECOY, "decoy", 20)              \
  X(HOLLOW, "hollow", 5)             \
  X(EDGE, "edge", 10)

#define X(name, text, shaded, outline) CAPL_SLIDER_##name,
enum { CAPL_SLIDER_SHAPE_MAP(X) CAPL_SLIDER_SHAPES };
#undef X
#define X(name, text) CAPL_SLIDER_##name,
typedef enum { CAPL_SLIDER_STYLE_MAP(X) CAPL_SLIDER_STYLES } capl_slider_style;
#undef X
#define X(name, text, share) CAPL_CONFUSION_##name,
enum { CAPL_SLIDER_CONFUSION_MAP(X) CAPL_SLIDER_CONFUSIONS };
#undef X
enum {
  CAPL_SLIDER_PLAIN = 30,    /* of 100 pictures have no confusion, */
  CAPL_SLIDER_COMBINED = 10, /* have two or three */
};

typedef struct {
  int width, height; /* px, 240..2048 by 120..2048; 0, 0 = 320, 160, with mixed 512, 256 */
  bool mixed;        /* pictures of many sizes (W 280..480, H 140..240), each brought to width x height by a centred
                     ** letterbox, white around it, as files are (source.h) */
  uint32_t background_first, background_count; /* which backgrounds of seed; 0, 0 = 0, 2000. Sources of one seed with
                                               ** others share none */
  int size_lo, size_hi; /* px of the piece, even ones of 32..96; 0, 0 = 46, 64 */
  uint32_t shapes;      /* a bit per shape, 1 << CAPL_SLIDER_CIRCLE …; 0 = all of the style */
  capl_slider_style style;
} capl_slider_options;

/* A picture with a gap and the piece that was cut from it, on the same height at the left, at any fraction of a pixel.
** Fields: points (4,3): gap, piece, two decoys: their centres of mass; boxes (4,5): the same four, class 0 gap, 1
** piece, 2 decoy; angle (1): degrees by which the gap is turned, positive = counter-clockwise; facts (4): background,
** shape, size in px, confusions as bits. options may be NULL. EVALUE for an option out of range. */
CAPL_API capl_status capl_source_slider_new(const capl_slider_options *options, const capl_scene_set *set,
                                            capl_source **source);
/* i-th name, NULL past the last. */
CAPL_API const char *capl_slider_shape_name(int i);
CAPL_API const char *capl_slider_confusion_name(int i);
CAPL_API const char *capl_slider_style_name(int i);

/* ---- faces ----------------------------------------------------------------------------------- */

/* Classes of the mask in their order, as in CelebAMask-HQ; left and right are the picture's. */
#define CAPL_FACE_CLASS_MAP(X)                                                                                    \
  X(BACKGROUND, "background") X(SKIN, "skin") X(NOSE, "nose") X(GLASSES, "glasses") X(LEFT_EYE, "left_eye")       \
  X(RIGHT_EYE, "right_eye") X(LEFT_BROW, "left_brow") X(RIGHT_BROW, "right_brow") X(LEFT_EAR, "left_ear")         \
  X(RIGHT_EAR, "right_ear") X(MOUTH, "mouth") X(UPPER_LIP, "upper_lip") X(LOWER_LIP, "lower_lip") X(HAIR, "hair") \
  X(HAT, "hat") X(EARRING, "earring") X(NECKLACE, "necklace") X(NECK, "neck") X(CLOTH, "cloth")

/* Classes that change places when a face is flipped. */
#define CAPL_FACE_SWAP_MAP(X) X(LEFT_EYE, RIGHT_EYE) X(LEFT_BROW, RIGHT_BROW) X(LEFT_EAR, RIGHT_EAR)

enum {
#define X(name, text) CAPL_FACE_##name,
  CAPL_FACE_CLASS_MAP(X)
#undef X
  CAPL_FACE_CLASSES
};

/* painted: soft shades, colours of photographs. drawing: line art in flat shades, bright colours, large eyes. */
#define CAPL_FACE_STYLE_MAP(X) \
  X(PAINTED, "painted")        \
  X(DRAWING, "drawing")

#define X(name, text) CAPL_FACE_##name,
typedef enum { CAPL_FACE_STYLE_MAP(X) CAPL_FACE_STYLES } capl_face_style;
#undef X

/* Drawn faces with a mask of 19 classes that fits them to the pixel: field mask (H,W). size: px of both sides,
** 64..1024; 0 = 512. The classes are as uneven as in photographs: background, hair and skin cover most, hats and
** necklaces are rare. EVALUE. */
CAPL_API capl_status capl_source_faces_new(int size, capl_face_style style, const capl_scene_set *set,
                                           capl_source **source);
/* i-th name, NULL past the last. */
CAPL_API const char *capl_face_class_name(int i);
CAPL_API const char *capl_face_style_name(int i);

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes samples 0..n-1 of epoch 0 with `threads` threads (0 = the calling thread): dir/INDEX.png (zero-padded), their
** masks as dir/INDEX_mask.png (gray, level = class), and their other fields in dir/labels.jsonl, one object a line:
** {"file": "07.png", "points": [[x, y, 1], …], …}. dir is made if its parent exists; each file appears whole or not at
** all. EIO naming the file; EVALUE; ENOMEM. */
CAPL_API capl_status capl_scene_save(capl_source *source, uint32_t n, const char *dir, int threads);
/* The same as an LMDB database in dir, with masks and the other fields. As capl_lmdb_create and _append_record. stop:
** may be NULL. */
CAPL_API capl_status capl_scene_pack(capl_source *source, uint32_t n, const char *dir, int threads,
                                     bool (*stop)(void));

/* ---- a series made up ------------------------------------------------------------------------ */

/* name, decimals it is rounded to: fine dust in the air of a city by days, and the weather it follows, in the units of
** ERA5: K, m/s, m, Pa, kg m-2, m, kg m-2 s-1, J m-2 */
#define CAPL_PM25_MAP(X)                                                                                          \
  X(pm25, 1) X(d2m, 2) X(t2m, 2) X(u10, 3) X(v10, 3) X(u100, 3) X(v100, 3) X(blh, 1) X(sp, 0) X(tcwv, 3) X(tp, 6) \
  X(avg_tprate, 8) X(tisr, 0)

enum {
#define X(name, decimals) CAPL_PM25_##name,
  CAPL_PM25_MAP(X)
#undef X
  CAPL_PM25_COLUMNS,
  CAPL_PM25_DAYS_MAX = 100000
};

CAPL_API const char *capl_pm25_column(int i); /* NULL past the last */
/* days (1..CAPL_PM25_DAYS_MAX) from 2015-01-01 on. value: (days, CAPL_PM25_COLUMNS); date: (days) texts such as
** 2015-01-01. The logarithm of pm25 is highest in winter, a little lower at weekends, falls by a quarter over ten
** years, remembers the day before, falls with wind, rain and a high boundary layer, rises with humidity and while the
** air stands still for days, mostly in winter; mean 45..55, within 3..400. The same numbers on every machine.
** EVALUE. */
CAPL_API capl_status capl_pm25_make(uint64_t seed, uint32_t days, double *value, char (*date)[11]);

#ifdef __cplusplus
}
#endif
#endif
