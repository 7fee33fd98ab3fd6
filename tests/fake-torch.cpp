/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of PyTorch's libraries that the allocator of gpumem calls: c10::Error as in libc10.so,
 * c10::OutOfMemoryError as in libc10_cuda.so, and the calls of CUDAPluggableAllocator. Built three
 * times, as each of the libraries, by test-python-allocators.py. */
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace c10 {

struct SourceLocation
{
  const char *function;
  const char *file;
  uint32_t line;
};

class __attribute__ ((visibility ("default"))) Error : public std::exception
{
  std::string message;
  std::vector<std::string> context;
  std::shared_ptr<int> backtrace;
  std::string text;
  const void *caller;

public:
  Error (SourceLocation location, std::string message);
  const char *what () const noexcept override { return text.c_str (); }
};

class __attribute__ ((visibility ("default"))) OutOfMemoryError : public Error
{
  using Error::Error;
};

#ifdef FAKE_C10
Error::Error (SourceLocation location, std::string message)
    : message (std::move (message)), backtrace (std::make_shared<int> (location.line)),
      caller (nullptr)
{
  text = this->message + " in " + location.function;
}
#endif

}

#ifdef FAKE_C10_CUDA
/* Makes the compiler emit the type and its table. */
extern "C" void
fake_throw (const char *message)
{
  throw c10::OutOfMemoryError ({ "fake_throw", "fake", 1 }, message);
}
#endif

#ifdef FAKE_TORCH
typedef std::pair<unsigned long long, unsigned long long> MempoolId;
typedef std::function<bool (void *)> Filter;

static int n_live;

/* A function object that does not fit into std::function. */
struct Match
{
  void *stream;
  uint64_t padding[4];

  explicit Match (void *stream) : stream (stream), padding () { n_live++; }
  Match (const Match &other) : stream (other.stream), padding () { n_live++; }
  ~Match () { n_live--; }
  bool operator() (void *other) const { return other == stream; }
};

extern "C" int
fake_live (void)
{
  return n_live;
}

/* Returns the address. Sets the kind of the exception: 1 for out of memory, 2 for any other. Copies
 * up to 1023 bytes of the message to @what. */
extern "C" void *
fake_alloc (void *(*alloc) (ssize_t, int, void *), ssize_t size, int device, void *stream, int *kind,
            char *what)
{
  *kind = 0;
  try
    {
      return alloc (size, device, stream);
    }
  catch (const c10::OutOfMemoryError &error)
    {
      *kind = 1;
      strncpy (what, error.what (), 1023);
    }
  catch (const std::exception &error)
    {
      *kind = 2;
      strncpy (what, error.what (), 1023);
    }

  return nullptr;
}

extern "C" void
fake_begin (void (*begin) (int, MempoolId, Filter), int device, unsigned long long first,
            unsigned long long second, void *stream)
{
  begin (device, MempoolId (first, second), Match (stream));
}

extern "C" void
fake_end (void (*end) (int, MempoolId), int device, unsigned long long first,
          unsigned long long second)
{
  end (device, MempoolId (first, second));
}
#endif
