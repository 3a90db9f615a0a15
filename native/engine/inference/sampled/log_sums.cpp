#include "log_sums.h"

#include <algorithm>
#include <limits>

#include "engine/special_values.h"

namespace collapsar {

namespace {}  // namespace

LogAdder::LogAdder() : kernels_(kernels()) {}

void LogAdder::reserve(std::vector<double>& values, std::int64_t count) {
  const auto size = static_cast<std::size_t>((count + kVectorDoubles - 1) / kVectorDoubles * kVectorDoubles);
  if (values.size() < size) values.resize(size);
}

void LogAdder::exponentials(std::vector<double>& values, std::int64_t count) {
  reserve(values, count);
  kernels_.exponentials(values.data(), count, values.data());
}

void LogAdder::logarithms(std::vector<double>& values, std::int64_t count) {
  reserve(values, count);
  kernels_.logarithms(values.data(), count, values.data());
}

// high + ln(1 + small), small = e^(low - high). What rounding takes from that sum is given back: it counts where the
// sum is near 1, and so is its derivative there.
template <class First>
void LogAdder::addAll(First a, const double* b, std::int64_t count, double* out) {
  reserve(small_, count);
  reserve(sum_, count);
  double* const small = small_.data();
  double* const sum = sum_.data();
  for (std::int64_t i = 0; i < count; i++) {
    const double low = std::min(a(i), b[i]);
    small[i] = low == -kInfinity ? low : low - std::max(a(i), b[i]);
  }
  kernels_.exponentials(small, count, small);
  for (std::int64_t i = 0; i < count; i++) sum[i] = 1 + small[i];
  kernels_.logarithms(sum, count, sum);
  for (std::int64_t i = 0; i < count; i++) {
    const double lost = (1 + small[i]) - 1 - small[i];
    out[i] = std::max(a(i), b[i]) + (sum[i] - lost);
  }
}

void LogAdder::add(const double* a, const double* b, std::int64_t count, double* out) {
  addAll([a](std::int64_t i) { return a[i]; }, b, count, out);
}

void LogAdder::add(double a, const double* b, std::int64_t count, double* out) {
  if (a == -kInfinity) {
    std::copy(b, b + count, out);
    return;
  }
  addAll([a](std::int64_t) { return a; }, b, count, out);
}

double LogAdder::add(double a, double b) {
  if (a == -kInfinity) return b;
  double sum;
  add(a, &b, 1, &sum);
  return sum;
}

void LogSum::take(const double* logs, std::int64_t count, LogAdder& adder) {
  const auto largestBut = [&](std::int64_t a, std::int64_t b) {
    std::int64_t found = -1;
    for (std::int64_t i = 0; i < count; i++) {
      if (i != a && i != b && (found < 0 || logs[i] > logs[found])) found = i;
    }
    return found;
  };
  largest_ = largestBut(-1, -1);
  second_ = largestBut(largest_, -1);
  const std::int64_t tops[] = {largest_, second_, largestBut(largest_, second_)};
  for (int level = 0; level < 3; level++) {
    std::vector<double>& terms = term_[level];
    LogAdder::reserve(terms, count);
    const double top = tops[level] < 0 ? -kInfinity : logs[tops[level]];
    for (std::int64_t i = 0; i < count; i++) {
      const bool out = (level > 0 && i == largest_) || (level > 1 && i == second_);
      terms[at(i)] = out || logs[i] == -kInfinity ? -kInfinity : logs[i] - top;
    }
    adder.exponentials(terms, count);
    double total = 0;
    for (std::int64_t i = 0; i < count; i++) total += terms[at(i)];
    top_[level] = top;
    total_[level] = total;
  }
}

}  // namespace collapsar
