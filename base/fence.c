#include "base/fence.h"

#if defined(__SANITIZE_THREAD__)
_Atomic unsigned fence_word;
#endif
