// AWS event streams: binary messages, each with two checksums.  All numbers are big endian.
//
//   u32 total | u32 headers | u32 crc of these 8 bytes | headers | payload | u32 crc of all before
//   header := u8 length, name, u8 7, u16 length, text
#ifndef EVENTSTREAM_H
#define EVENTSTREAM_H
#include "common.h"

#define PRELUDE 12
#define AROUND (PRELUDE + 4) // what stands around headers and payload

// CRC-32 of eight bytes at a time: crc_of[j][b] is what byte b does when j bytes follow it.
static uint32_t crc_of[8][256];

static inline void crc_init(void) {
  for (int b = 0; b < 256; b++) {
    uint32_t c = b;
    for (int i = 0; i < 8; i++)
      c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    crc_of[0][b] = c;
  }
  for (int j = 1; j < 8; j++)
    for (int b = 0; b < 256; b++)
      crc_of[j][b] = crc_of[j - 1][b] >> 8 ^ crc_of[0][crc_of[j - 1][b] & 255];
}

static inline uint32_t crc32_of(const void *data, size_t n) {
  const unsigned char *p = data;
  uint32_t c = ~0u;
  for (; n >= 8; n -= 8, p += 8) {
    c ^= p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
    c = crc_of[7][c & 255] ^ crc_of[6][c >> 8 & 255] ^ crc_of[5][c >> 16 & 255] ^ crc_of[4][c >> 24] ^
        crc_of[3][p[4]] ^ crc_of[2][p[5]] ^ crc_of[1][p[6]] ^ crc_of[0][p[7]];
  }
  while (n--)
    c = c >> 8 ^ crc_of[0][(c ^ *p++) & 255];
  return ~c;
}

static inline uint32_t u32_at(const char *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return ntohl(v);
}

static inline void put_u32(char *p, uint32_t v) {
  v = htonl(v);
  memcpy(p, &v, 4);
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static inline size_t base64_encode(const char *from, size_t n, char *to) {
  const unsigned char *p = (const unsigned char *)from;
  char *o = to;
  for (size_t i = 0; i < n; i += 3) {
    uint32_t v = p[i] << 16 | (i + 1 < n ? p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
    *o++ = base64_digits[v >> 18];
    *o++ = base64_digits[v >> 12 & 63];
    *o++ = i + 1 < n ? base64_digits[v >> 6 & 63] : '=';
    *o++ = i + 2 < n ? base64_digits[v & 63] : '=';
  }
  return o - to;
}

// The bytes that n digits say, or -1 for what is not base64 to the letter: its alphabet, its padding.
static inline ssize_t base64_decode(const char *from, size_t n, char *to) {
  static signed char value[256];
  if (!value['B']) {
    memset(value, -1, sizeof value);
    for (int i = 0; i < 64; i++)
      value[(unsigned char)base64_digits[i]] = i;
  }
  if (n % 4)
    return -1;
  size_t pad = n ? (from[n - 1] == '=') + (from[n - 1] == '=' && from[n - 2] == '=') : 0;
  char *o = to;
  for (size_t i = 0; i < n; i += 4) {
    int v = 0, last = i + 4 == n;
    for (size_t j = 0; j < 4; j++) {
      int digit = last && j >= 4 - pad ? 0 : value[(unsigned char)from[i + j]];
      if (digit < 0)
        return -1;
      v = v << 6 | digit;
    }
    *o++ = v >> 16;
    *o++ = v >> 8;
    *o++ = v;
  }
  return o - to - pad;
}

#endif
