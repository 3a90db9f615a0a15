#include "engine/texts/text_figures.h"
#include "check.h"
