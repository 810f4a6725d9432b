#include "wal/lane_impl.h"
int wal_lane_resume(struct wal_lane *lane, int64_t deadline_mono_ns, struct err_msg *msg)
{
    (void)deadline_mono_ns, (void)msg;
    return lane->latched;
}
