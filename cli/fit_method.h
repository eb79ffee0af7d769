/* Which options of `focal fit` do something with which method. */
#ifndef CLI_FIT_METHOD_H
#define CLI_FIT_METHOD_H

#include "fit_settings.h"

#define FIT_METHODS "focus|temperature|none|random|start|lora|scale"

/* cli_wrong() where the option (without its dashes) does nothing with the method, else CLI_DONE;
 * the same for all settings that were given. is_near: groups.top is 0, no distant key is seen. */
int fit_method_check(const char *method, const char *option);
int fit_method_check_all(const char *method, bool is_near, const fit_settings *settings);

#endif /* CLI_FIT_METHOD_H */
