/* What of the command line of `focal fit` does nothing with a method. */
#ifndef CLI_FIT_METHOD_H
#define CLI_FIT_METHOD_H

#include "fit_settings.h"

#define FIT_METHODS "focus|temperature|none|random|start|lora|scale"

/* cli_wrong() where a key does nothing with the method of the run, which need not be resolved, else
 * CLI_DONE. `as` is how it was said: "--lr", "--set seed=2". */
int fit_method_check(const focal_run *run, const char *as, const char *key);
/* The same for all settings that were given, and every --set. */
int fit_method_check_all(const focal_run *run, const fit_settings *settings, const cli_texts *sets);

#endif /* CLI_FIT_METHOD_H */
