// The same program, compiled as C++.
#include "use.c"
