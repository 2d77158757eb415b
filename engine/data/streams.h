/* streams.h -- the Philox streams of this folder: the third number of capl_rng_init.
**
** Each purpose has its own stream of (seed, sample, epoch), so that adding one shifts no other.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_DATA_STREAMS_H
#define CAPL_DATA_STREAMS_H

enum {
  CAPL_STREAM_CAPTCHA = 0x0da70001,
  CAPL_STREAM_SHUFFLE = 0x0da70002,
  CAPL_STREAM_AUGMENT = 0x0da70100,        /* + capl_augment_op; up to 0x0da7013f */
  CAPL_STREAM_AUGMENT_COIN = 0x0da70140,   /* + capl_augment_op: whether it is applied; up to 0x0da7017f */
  CAPL_STREAM_AUGMENT_SHARED = 0x0da70180, /* + number of a coin that ops share; up to 0x0da701ff */
  CAPL_STREAM_CAPTCHA_LENGTH = 0x0da70003, /* where it says how wide an image is */
  CAPL_STREAM_SLIDER = 0x0da70010,
  CAPL_STREAM_BACKDROP = 0x0da70011, /* of (seed, background): the same under many captchas */
  CAPL_STREAM_FACE = 0x0da70012,
  CAPL_STREAM_PM25 = 0x0da70013,
};

#endif
