#include "job.h"

#include <atomic>

namespace collapsar {
namespace {

std::atomic<std::int64_t> jobs{0};

}  // namespace

Job::Job() { ++jobs; }
Job::~Job() { --jobs; }
std::int64_t Job::liveJobs() { return jobs; }

}  // namespace collapsar
