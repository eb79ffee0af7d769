/* focal train TEXT...: not there yet. */
#include "train.h"

int train_from_texts(const train_request *request)
{
    return cli_wrong("train: '%s' is no run file (*.conf) and no folder of a run",
                     request->texts.items[0]);
}
