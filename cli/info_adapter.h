/* What an adapter is, for focal info. */
#ifndef CLI_INFO_ADAPTER_H
#define CLI_INFO_ADAPTER_H

#include "focal/adapter.h"

/* Whether the path is a directory with an adapter's configuration. */
bool info_is_adapter(const char *path);
/* On stdout: lines that a person reads, or one JSON object. */
void info_print_adapter(const focal_adapter *adapter, bool is_json);

#endif /* CLI_INFO_ADAPTER_H */
