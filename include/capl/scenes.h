/* scenes.h -- generated pictures beyond texts: slider captchas and faces, with what is in them.
**
** Both are sources (data.h): sample id of epoch e is picture e * 2^32 + id of seed, a pure function of seed, that number
** and the options; the bytes are the same for any number of threads and on every machine.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_SCENES_H
#define CAPL_SCENES_H

#include "capl/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many pictures, and which. */
typedef struct {
  uint64_t seed;
  uint32_t count; /* per epoch; 0 = 2^32 - 1 */
  bool fixed;     /* the same in every epoch, none of which a source of that seed without fixed ever gives */
  int channels;   /* 1 or 3; 0 = 3 */
} capl_scene_set;

/* ---- slider captchas ------------------------------------------------------------------------- */

enum { CAPL_SLIDER_DECOYS = 2 };

/* shape, what recipes call it, how often it comes */
#define CAPL_SLIDER_SHAPE_MAP(X) \
  X(CIRCLE, "circle", 1)         \
  X(SQUARE, "square", 1)         \
  X(TRIANGLE, "triangle", 1)     \
  X(HEXAGON, "hexagon", 1)       \
  X(RECTANGLE, "rectangle", 1)   \
  X(ROUNDED, "rounded", 1)       \
  X(POLYGON, "polygon", 1)       \
  X(JIGSAW, "jigsaw", 6)

/* what makes the gap hard to find, name, how many of 100 pictures have it alone; bits of the field "facts" */
#define CAPL_SLIDER_CONFUSION_MAP(X) \
  X(ROTATION, "rotation", 10)        \
  X(NOISE, "noise", 5)               \
  X(HIGHLIGHT, "highlight", 10)      \
  X(DECOY, "decoy", 20)              \
  X(HOLLOW, "hollow", 5)             \
  X(EDGE, "edge", 10)

#define X(name, text, share) CAPL_SLIDER_##name,
enum { CAPL_SLIDER_SHAPE_MAP(X) CAPL_SLIDER_SHAPES };
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
  bool mixed;        /* pictures of many sizes (W 280..480, H 140..240), each brought to width x height: enlarged as a
                     ** whole, centred, white around it */
  uint32_t background_first, background_count; /* which backgrounds of seed; 0, 0 = 0, 2000. Sources of one seed with
                                               ** others share none */
  int size_lo, size_hi; /* px of the piece, even ones of 32..96; 0, 0 = 46, 64 */
  uint32_t shapes;      /* a bit per shape, 1 << CAPL_SLIDER_CIRCLE …; 0 = all */
} capl_slider_options;

/* A picture with a gap and the piece that was cut from it, on the same height at the left, at any fraction of a pixel.
** Fields: points (4,3): gap, piece, two decoys: their centres of mass; boxes (4,5): the same four, class 0 gap, 1 piece,
** 2 decoy; angle (1): degrees by which the gap is turned, positive = counter-clockwise; facts (4): background, shape,
** size in px, confusions as bits. options may be NULL. EVALUE for an option out of range. */
CAPL_API capl_status capl_source_slider_new(const capl_slider_options *options, const capl_scene_set *set, capl_source **source);
/* i-th name, NULL past the last. */
CAPL_API const char *capl_slider_shape_name(int i);
CAPL_API const char *capl_slider_confusion_name(int i);

/* ---- faces ----------------------------------------------------------------------------------- */

/* Classes of the mask in their order, as in CelebAMask-HQ; left and right are the picture's. */
#define CAPL_FACE_CLASS_MAP(X)                                                                                    \
  X(BACKGROUND, "background") X(SKIN, "skin") X(NOSE, "nose") X(GLASSES, "glasses") X(LEFT_EYE, "left_eye")       \
  X(RIGHT_EYE, "right_eye") X(LEFT_BROW, "left_brow") X(RIGHT_BROW, "right_brow") X(LEFT_EAR, "left_ear")         \
  X(RIGHT_EAR, "right_ear") X(MOUTH, "mouth") X(UPPER_LIP, "upper_lip") X(LOWER_LIP, "lower_lip") X(HAIR, "hair") \
  X(HAT, "hat") X(EARRING, "earring") X(NECKLACE, "necklace") X(NECK, "neck") X(CLOTH, "cloth")

enum {
#define X(name, text) CAPL_FACE_##name,
  CAPL_FACE_CLASS_MAP(X)
#undef X
  CAPL_FACE_CLASSES
};

/* Drawn faces with a mask of 19 classes that fits them to the pixel: field mask (H,W). size: px of both sides, 64..1024;
** 0 = 512. The classes are as uneven as in photographs: background, hair and skin cover most, hats and necklaces are
** rare. EVALUE. */
CAPL_API capl_status capl_source_faces_new(int size, const capl_scene_set *set, capl_source **source);
/* i-th class's name, NULL past the last. */
CAPL_API const char *capl_face_class_name(int i);
/* i-th pair of classes that change places when a face is flipped; false past the last. */
CAPL_API bool capl_face_swap(int i, int pair[2]);

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes samples 0..n-1 of epoch 0 with `threads` threads (0 = the calling thread): dir/INDEX.png (zero-padded), their
** masks as dir/INDEX_mask.png (gray, level = class), and their other fields in dir/labels.jsonl, one object a line:
** {"file": "07.png", "points": [[x, y, 1], …], …}. dir is made if its parent exists; each file appears whole or not at all.
** EIO naming the file; EVALUE; ENOMEM. */
CAPL_API capl_status capl_scene_save(capl_source *source, uint32_t n, const char *dir, int threads);
/* Draws them again: their hash in hexadecimal, and unless dir is NULL the first difference to the pictures and masks there
** as an error. EVALUE naming file and pixel; EIO, EFORMAT; ENOMEM. */
CAPL_API capl_status capl_scene_compare(capl_source *source, uint32_t n, const char *dir, int threads, char sha256[65]);

#ifdef __cplusplus
}
#endif
#endif
