// JavaScript arguments of one engine operation -> the job that computes it. Each is described, with its TypeScript
// signature, at its definition. They throw JS errors, with a property `argument` where an argument is to blame.
#pragma once

#include <cstddef>
#include <memory>

#include "node/arguments/arguments.h"
#include "node/job.h"

namespace collapsar {

std::unique_ptr<Job> sumTokensJob(Arguments& arguments, std::size_t maxBufferBytes);
std::unique_ptr<Job> sumFileTokensJob(Arguments& arguments, std::size_t maxBufferBytes);
std::unique_ptr<Job> logitStatsJob(Arguments& arguments, std::size_t maxBufferBytes);
std::unique_ptr<Job> scoreStatsJob(Arguments& arguments, std::size_t maxBufferBytes);
std::unique_ptr<Job> tokenRowStatsJob(Arguments& arguments, std::size_t maxBufferBytes);
std::unique_ptr<Job> gatherScoresJob(Arguments& arguments, std::size_t maxBufferBytes);
std::unique_ptr<Job> takeTokensJob(Arguments& arguments);
std::unique_ptr<Job> takeSumsJob(Arguments& arguments);
std::unique_ptr<Job> stepMomentsJob(Arguments& arguments);
std::unique_ptr<Job> inferStepJob(Arguments& arguments);
std::unique_ptr<Job> promptMatricesJob(Arguments& arguments);
std::unique_ptr<Job> inferPairsJob(Arguments& arguments);
std::unique_ptr<Job> actionDependenceJob(Arguments& arguments);
std::unique_ptr<Job> matchedOrdersJob(Arguments& arguments);
std::unique_ptr<Job> periodicEpisodesJob(Arguments& arguments);
std::unique_ptr<Job> textFiguresJob(Arguments& arguments);
std::unique_ptr<Job> phraseSharesJob(Arguments& arguments);

// An engine's GPU and its memory.
std::unique_ptr<Job> openDeviceJob(Arguments& arguments);
std::unique_ptr<Job> closeDeviceJob(Arguments& arguments);
std::unique_ptr<Job> deviceMemoryJob(Arguments& arguments);
std::unique_ptr<Job> allocDeviceJob(Arguments& arguments);
std::unique_ptr<Job> uploadDeviceJob(Arguments& arguments);
std::unique_ptr<Job> downloadDeviceJob(Arguments& arguments);
std::unique_ptr<Job> freeDeviceJob(Arguments& arguments);
std::unique_ptr<Job> importDeviceJob(Arguments& arguments);
std::unique_ptr<Job> shareDeviceJob(Arguments& arguments);

}  // namespace collapsar
