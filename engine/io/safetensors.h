/* safetensors.h -- the pieces of the safetensors format: header, notes in it, data; the reader on memory.
** SPDX-License-Identifier: Apache-2.0
*/
#ifndef CAPL_IO_SAFETENSORS_H
#define CAPL_IO_SAFETENSORS_H

#include "capl/io.h"
#include "io/file.h"

/* A text in the header's __metadata__. Lists of them end with a NULL key. */
typedef struct {
  const char *key, *text;
} safetensors_note;

/* The header as text, padded with blanks to a multiple of 8; caller frees. notes: NULL = none. EVALUE for
** two tensors of one name; ENOMEM. */
capl_status safetensors_header(const capl_named_tensor *list, int n, const safetensors_note *notes, char **out,
                               size_t *len);
/* Appends header length, header and the bytes of the tensors. */
capl_status safetensors_append(file_writer *w, const char *header, size_t len, const capl_named_tensor *list, int n);
/* capl_safetensors_save; hash takes in all that is written, NULL = nobody asks. */
capl_status safetensors_save_hashed(const char *path, const capl_named_tensor *list, int n, SHA2_CTX *hash);
/* *text: a note, caller frees; NULL where the file has none of that key. EFORMAT if it is no safetensors file. */
capl_status safetensors_read_note(const char *path, const char *data, size_t len, const char *key, char **text);
/* Bytes the whole file should have by its header; 0 if that cannot be read. */
size_t safetensors_length(const char *data, size_t len);
/* Likewise of a file of which no more than the header is read, and the bytes that it has. EFORMAT if the header cannot
** be read. */
capl_status safetensors_measure(const char *path, uint64_t *meant, uint64_t *size);

/* The bytes of a file that is as long as its header says; caller frees. EIO, EFORMAT, ENOMEM. */
capl_status safetensors_read(const char *path, char **data, size_t *len);
/* capl_safetensors_load on len bytes; path stands for them in messages. */
CAPL_API capl_status safetensors_parse(const char *path, const char *data, size_t len, capl_device *device,
                                       capl_named_tensor **list, int *n);

#endif
