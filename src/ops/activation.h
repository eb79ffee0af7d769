/* The activations of feed-forward layers (docs/MATH.md, 4.3). */
#ifndef FOCI_OPS_ACTIVATION_H
#define FOCI_OPS_ACTIVATION_H

typedef enum foci_activation {
    FOCI_SILU,
    FOCI_GELU,     /* with the normal distribution (erf) */
    FOCI_GELU_TANH /* its approximation: "gelu_new", "gelu_pytorch_tanh" */
} foci_activation;

#endif /* FOCI_OPS_ACTIVATION_H */
