/* lookalikes.c -- symbols that fonts draw alike: the one list of them.
**
** A symbol is in one set at most. Own selection: digits and Latin letters, letters whose cases differ in size alone,
** Cyrillic and Greek letters beside Latin ones, kana beside characters, characters that differ by one stroke.
** SPDX-License-Identifier: Apache-2.0
*/
#include <string.h>

#include "base/text.h"
#include "capl/field.h"

static const char *const sets[] = {
  "0OoОоΟο〇", "1Il|", "cCсС", "sS", "vV", "wW", "xXхХΧ", "zZΖ", "AАΑ", "BВΒ", "EЕΕ", "HНΗ", "KКΚ", "MМΜ", "NΝ", "PРΡ",
  "TТΤ", "YΥ", "aа", "eе", "pрρ", "yу",
  "一ー—", "二ニ", "八ハ", "力カ刀", "工エ", "夕タ", "卜ト", "口ロ囗", "千干于チ", "才オ",
  "己已巳", "未末", "土士", "日曰", "人入", "戊戌戍", "天夭", "大太犬", "王玉主", "目且", "治冶", "洒酒", "析折", "侯候", "辨辩辫",
  "晴睛", "免兔", "茶荼", "鸟乌", "拔拨", "徒徙", "幻幼", "今令", "代伐", "休体", "午牛", "问间", "刁习", "田由甲申", "史吏",
  "广厂", "仑仓", "抢抡", "沧沦", "捡检", "壮状", "侍待", "暖暧", "祟崇", "炙灸", "竟竞",
};

/* The symbols of a set that a charset has -> how many. */
static int common(const char *set, const char *symbols, char *out)
{
  int n = 0;
  for (int bytes; *set; set += bytes) {
    char symbol[8] = {0};
    bytes = capl_text_char(set);
    memcpy(symbol, set, (size_t)bytes);
    if (!strstr(symbols, symbol)) continue;
    memcpy(out, symbol, (size_t)bytes);
    out += bytes;
    n++;
  }
  *out = '\0';
  return n;
}

bool capl_text_lookalikes(const char *symbols, int *next, char set[CAPL_LOOKALIKES_ROOM])
{
  while (*next < (int)(sizeof sets / sizeof *sets))
    if (common(sets[(*next)++], symbols, set) > 1) return true;
  return false;
}
