// How a kernel asks memory for what it will work on.
#pragma once

namespace collapsar {

// Whether, on this processor, what is far ahead is asked for into the L2 cache, and into the L1 cache when it is near;
// else what is far is asked for into the L1 cache.
bool asksL2First();

}  // namespace collapsar
