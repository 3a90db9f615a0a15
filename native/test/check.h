// The C++ tests' frame: named cases, checks that go on after a failure, a line with the count at the end.
//
//   TEST_CASE("an empty row sums to zero") { CHECK_EQUAL(sumOf({}), 0.0); }
//   int main() { return collapsar::test::runCases(); }
#pragma once

#include <cmath>
#include <iostream>
#include <type_traits>
#include <vector>

namespace collapsar::test {

// What is computed is checked at every size without sanitizers, with which it takes ten times as long: there sizes will
// do at which memory is reached in every way.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

struct Case {
  const char* name;
  void (*body)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*body)()) { cases().push_back({name, body}); }
};

inline long& failures() {
  static long count = 0;
  return count;
}

constexpr long kShownFailures = 20;  // a case; the others are counted

template <class... Parts>
void fail(const char* file, int line, const Parts&... parts) {
  if (++failures() > kShownFailures) return;
  std::cerr.precision(17);
  std::cerr << file << ":" << line << ": ";
  (std::cerr << ... << parts);
  std::cerr << "\n";
}

// Equal, or both NaN.
template <class A, class B>
bool same(const A& a, const B& b) {
  if constexpr (std::is_floating_point_v<A> && std::is_floating_point_v<B>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  }
  return a == b;
}

// Within `tolerance`, or the same special value.
inline bool near(double a, double b, double tolerance) { return same(a, b) || std::abs(a - b) <= tolerance; }

// Prints "N passed, N failed"; the exit status.
inline int runCases() {
  long failed = 0;
  for (const Case& one : cases()) {
    failures() = 0;
    one.body();
    if (failures() == 0) continue;
    failed++;
    std::cerr << "FAILED: " << one.name << " (" << failures() << " checks)\n";
  }
  std::cout << static_cast<long>(cases().size()) - failed << " passed, " << failed << " failed\n";
  return failed == 0 && !cases().empty() ? 0 : 1;
}

}  // namespace collapsar::test

#define COLLAPSAR_TEST_JOIN2(a, b) a##b
#define COLLAPSAR_TEST_JOIN(a, b) COLLAPSAR_TEST_JOIN2(a, b)
#define TEST_CASE(name)                                                                     \
  static void COLLAPSAR_TEST_JOIN(testCase, __LINE__)();                                    \
  static const ::collapsar::test::Registration COLLAPSAR_TEST_JOIN(registration, __LINE__)( \
      name, &COLLAPSAR_TEST_JOIN(testCase, __LINE__));                                      \
  static void COLLAPSAR_TEST_JOIN(testCase, __LINE__)()

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) ::collapsar::test::fail(__FILE__, __LINE__, "not true: ", #condition); \
  } while (false)

// The rest of the arguments, if any, are printed after the values.
#define CHECK_EQUAL(actual, expected, ...)                                                       \
  do {                                                                                           \
    const auto actual_ = (actual);                                                               \
    const auto expected_ = (expected);                                                           \
    if (!::collapsar::test::same(actual_, expected_)) {                                          \
      ::collapsar::test::fail(__FILE__, __LINE__, #actual, " is ", actual_, ", not ", expected_, \
                              " " __VA_OPT__(, ) __VA_ARGS__);                                   \
    }                                                                                            \
  } while (false)

#define CHECK_NEAR(actual, expected, tolerance, ...)                                                         \
  do {                                                                                                       \
    const double actual_ = (actual), expected_ = (expected), tolerance_ = (tolerance);                       \
    if (!::collapsar::test::near(actual_, expected_, tolerance_)) {                                          \
      ::collapsar::test::fail(__FILE__, __LINE__, #actual, " is ", actual_, ", not ", expected_, " within ", \
                              tolerance_, " " __VA_OPT__(, ) __VA_ARGS__);                                   \
    }                                                                                                        \
  } while (false)
