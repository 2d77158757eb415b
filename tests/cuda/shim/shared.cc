/* shared.cc -- finds __shared__ arrays, which are function-local static arrays here, and launch bounds in a library.
**
** A static array of function f has the mangled name _ZZ<f>E<name> where f's own is _Z<f>, so the owner is known; and the
** kernels of a library are known from its shim_thunk<...>::entry objects. Launch bounds are padding in front of a kernel
** (cuda_runtime.h); where it begins is listed in a section of its own.
** SPDX-License-Identifier: Apache-2.0
*/
#include "shared.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "block.h"

struct array {
  std::string symbol, owner; /* mangled; the owner without _Z */
  unsigned char *at;
  size_t bytes;
};

struct shared_list {
  std::vector<array> arrays;
  size_t own_bytes; /* of the kernel alone */
  int most_threads;
};

struct library {
  std::vector<array> arrays;
  std::map<const void *, std::string> functions; /* mangled, without _Z */
  std::set<std::string> kernels;
  shared_span span;
  std::map<const void *, int> bounds; /* threads of kernels with __launch_bounds__ */
};

/* ---- reading a library's symbols ------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
  return strncmp(text, with, strlen(with)) == 0;
}

/* _ZZ<owner>E<name>: the owner, by taking names off the end until a function of that name exists. */
static bool find_owner(const std::map<std::string, const void *> &by_name, const std::string &object, std::string *owner)
{
  for (size_t end = object.rfind('E'); end != std::string::npos && end > 3; end = object.rfind('E', end - 1)) {
    *owner = object.substr(3, end - 3);
    if (by_name.count(*owner)) return true;
  }
  return false;
}

static void take_symbols(library *into, const char *file, char *base)
{
  const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)file;
  const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(file + head->e_shoff);
  std::map<std::string, const void *> by_name;
  std::vector<std::pair<std::string, const ElfW(Sym) *>> objects;
  std::vector<const shim_kernel *> entries;
  for (int k = 0; k < head->e_shnum; k++) {
    if (sections[k].sh_type != SHT_SYMTAB) continue;
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)(file + sections[k].sh_offset);
    const char *names = file + sections[sections[k].sh_link].sh_offset;
    for (size_t i = 0; i < sections[k].sh_size / sizeof *symbols; i++) {
      const ElfW(Sym) *s = &symbols[i];
      const char *name = names + s->st_name;
      if (s->st_shndx == SHN_UNDEF || s->st_shndx >= head->e_shnum || !starts(name, "_Z")) continue;
      int type = ELF64_ST_TYPE(s->st_info);
      if (type == STT_FUNC) {
        by_name[name + 2] = base + s->st_value;
        into->functions[base + s->st_value] = name + 2;
      } else if (starts(name, "_ZN10shim_thunk") && strstr(name, "5entryE")) {
        entries.push_back((const shim_kernel *)(base + s->st_value));
      } else if (starts(name, "_ZZ") && s->st_size && sections[s->st_shndx].sh_flags & SHF_WRITE) {
        objects.push_back({name, s});
      }
    }
  }
  for (auto &object : objects) {
    array a = {object.first, "", (unsigned char *)base + object.second->st_value, object.second->st_size};
    if (find_owner(by_name, object.first, &a.owner)) into->arrays.push_back(a);
  }
  for (const shim_kernel *entry : entries) into->kernels.insert(into->functions[entry->code]);
}

#ifdef __x86_64__
enum { PADDING = 1 }; /* bytes of an instruction that does nothing */
#else
enum { PADDING = 4 };
#endif

/* The section holds the address where each kernel's padding begins. */
static void take_bounds(library *into, const char *file, char *base)
{
  const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)file;
  const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(file + head->e_shoff);
  const char *names = file + sections[head->e_shstrndx].sh_offset;
  for (int k = 0; k < head->e_shnum; k++) {
    if (strcmp(names + sections[k].sh_name, "__patchable_function_entries") != 0) continue;
    char *const *begins = (char *const *)(base + sections[k].sh_addr);
    for (size_t i = 0; i < sections[k].sh_size / sizeof *begins; i++) {
      auto kernel = into->functions.upper_bound(begins[i]);
      if (kernel != into->functions.end())
        into->bounds[kernel->first] = (int)((const char *)kernel->first - begins[i]) / PADDING;
    }
  }
}

static void take_span(library *into)
{
  char *begin = nullptr, *end = nullptr;
  for (const array &a : into->arrays) {
    if (!begin || (char *)a.at < begin) begin = (char *)a.at;
    if ((char *)a.at + a.bytes > end) end = (char *)a.at + a.bytes;
  }
  into->span = {begin, (size_t)(end - begin)};
}

static void read_library(library *into, const char *path, char *base)
{
  int fd = open(path, O_RDONLY);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) abort(); /* it is mapped, so it is there */
  void *file = mmap(nullptr, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (file == MAP_FAILED) abort();
  take_symbols(into, (const char *)file, base);
  take_bounds(into, (const char *)file, base);
  take_span(into);
  munmap(file, (size_t)st.st_size);
  close(fd);
}

/* Not inside the functions: a static variable in there would be taken for a shared array. */
static std::map<void *, library> &libraries = *new std::map<void *, library>;
static std::map<const void *, shared_list> &lists = *new std::map<const void *, shared_list>;

static library *library_of(const void *code)
{
  Dl_info where;
  if (!dladdr(code, &where)) abort();
  auto found = libraries.find(where.dli_fbase);
  if (found != libraries.end()) return &found->second;
  library *fresh = &libraries[where.dli_fbase];
  read_library(fresh, where.dli_fname, (char *)where.dli_fbase);
  return fresh;
}

/* ---- per kernel ------------------------------------------------------------------------------ */

const shared_list *shared_of_kernel(const void *code)
{
  auto found = lists.find(code);
  if (found != lists.end()) return &found->second;
  library *from = library_of(code);
  const std::string &name = from->functions[code];
  shared_list *list = &lists[code];
  list->own_bytes = 0;
  list->most_threads = from->bounds.count(code) ? from->bounds[code] : (int)MAX_THREADS;
  for (const array &a : from->arrays) {
    bool own = a.owner == name;
    if (!own && from->kernels.count(a.owner)) continue;
    list->arrays.push_back(a);
    if (own) list->own_bytes += a.bytes;
  }
  return list;
}


void shared_spoil(const shared_list *list)
{
  for (const array &a : list->arrays) memset(a.at, 0xCB, a.bytes);
}

size_t shared_bytes(const shared_list *list)
{
  return list->own_bytes;
}

int shared_most_threads(const shared_list *list)
{
  return list->most_threads;
}

/* ---- names ----------------------------------------------------------------------------------- */

static std::string readable(const std::string &mangled)
{
  int status;
  char *text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = text ? text : mangled;
  free(text);
  return name;
}

void shared_kernel_name(const void *code, char *out, size_t len)
{
  snprintf(out, len, "%s", readable("_Z" + library_of(code)->functions[code]).c_str());
}

shared_span shared_span_of(const void *code)
{
  return library_of(code)->span;
}

void shared_place(const void *code, const void *p, char *out, size_t len)
{
  for (const array &a : library_of(code)->arrays) {
    size_t offset = (size_t)((const unsigned char *)p - a.at);
    if (offset >= a.bytes) continue;
    std::string name = readable(a.symbol);
    size_t last = name.rfind("::");
    snprintf(out, len, "%s+%zu", name.c_str() + (last == std::string::npos ? 0 : last + 2), offset);
    return;
  }
  snprintf(out, len, "dynamic shared memory+%zu", (size_t)((const char *)p - (const char *)shim_dynamic_shared()));
}

/* Asks addr2line, which comes with the compiler. */
void shared_line(const void *returns_to, char *out, size_t len)
{
  char command[4400], *end;
  Dl_info where;
  const char *call = (const char *)returns_to - 1;
  if (!dladdr(call, &where)) return (void)snprintf(out, len, "%p", returns_to);
  size_t offset = (size_t)(call - (const char *)where.dli_fbase);
  const char *file = strrchr(where.dli_fname, '/');
  snprintf(out, len, "%s+0x%zx", file ? file + 1 : where.dli_fname, offset);
  snprintf(command, sizeof command, "addr2line -s -e '%s' 0x%zx 2>/dev/null", where.dli_fname, offset);
  FILE *answer = popen(command, "r");
  char line[160] = "";
  if (answer && fgets(line, sizeof line, answer) && line[0] != '?') {
    end = line + strcspn(line, " \n");
    snprintf(out, len, "%.*s", (int)(end - line), line);
  }
  if (answer) pclose(answer);
}
