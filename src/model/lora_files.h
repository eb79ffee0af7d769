/* LoRA in peft's layout: what the reader and the writer of its files have in common, and the
 * reader's two halves. What focal says about an adapter beside that stands in the metadata of the
 * tensors' file, where every version of peft lets it be. */
#ifndef FOCI_MODEL_LORA_FILES_H
#define FOCI_MODEL_LORA_FILES_H

#include "model/adapter_layout.h"
#include "model/adapter_members.h"
#include "model/adapter_read.h"

#define FOCI_LORA_VERSION_KEY "focal_version"
#define FOCI_LORA_FINGERPRINT_KEY "focal_fingerprint"
#define FOCI_LORA_FIT_KEY "focal_fit"

/* "self_attn.q_proj"; NULL: models of these names have none there. */
const char *foci_lora_part(foci_lora_names names, foci_linear_place place);

/* "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"; B with is_b. */
void foci_lora_tensor_name(foci_lora_names names, int32_t layer, foci_linear_place place, bool is_b,
                           char name[FOCI_ADAPTER_NAME_BYTES]);
/* The way back. False: no linear layer of a transformer's layer has that name. */
bool foci_lora_tensor_place(const char *name, foci_lora_names *names, int32_t *layer,
                            foci_linear_place *place, bool *is_b);

/* The configuration of peft_type LORA. */
void foci_lora_read_config(foci_members *r, foci_adapter_config *out);
/* An adapter's tensors, and what their file says about it. FOCAL_EFORMAT, or FOCAL_EUNSUPPORTED for
 * tensors that have no place. */
focal_status foci_lora_read_tensors(focal_adapter *adapter, const foci_lora_config *config,
                                    const foci_safetensors *file);

#endif /* FOCI_MODEL_LORA_FILES_H */
