// How a kernel asks memory for what it will work on.
#pragma once

namespace collapsar {

// Whether this processor is to prefetch far data into the L2 cache first, and near data into L1; else all into L1.
bool asksL2First();

}  // namespace collapsar
