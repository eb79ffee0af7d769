/* The tree that a template's source becomes, and the parser's parts. */
#ifndef FOCI_TEXT_TEMPLATE_NODE_H
#define FOCI_TEXT_TEMPLATE_NODE_H

#include "text/template_value.h"

enum {
    FOCI_TEMPLATE_SOURCE_LIMIT = 1 << 20, /* bytes */
    FOCI_TEMPLATE_NESTING = 160,          /* blocks and expressions inside each other */
    FOCI_TEMPLATE_NAMES = 256             /* of variables that are watched, see foci_parser */
};

typedef enum foci_node_kind {
    /* expressions */
    FOCI_N_CONSTANT,
    FOCI_N_NAME,
    FOCI_N_LIST,      /* kids */
    FOCI_N_TUPLE,     /* kids */
    FOCI_N_DICT,      /* kids: key, value, key, value ... */
    FOCI_N_ATTRIBUTE, /* a.name */
    FOCI_N_ITEM,      /* a[b] */
    FOCI_N_SLICE,     /* a[kids], each an ARGUMENT whose a may be NULL: start, stop, step */
    FOCI_N_CALL,      /* a(kids), each an ARGUMENT */
    FOCI_N_FILTER,    /* a | builtin(kids); a is NULL in a filter block: what was captured */
    FOCI_N_TEST,      /* a is builtin(kids) */
    FOCI_N_ARGUMENT,  /* a, with a name where it was given by keyword */
    FOCI_N_NOT,       /* a */
    FOCI_N_MINUS,     /* a */
    FOCI_N_PLUS,      /* a */
    FOCI_N_OR,        /* kids; chains of one level lie side by side, so that they cost no depth */
    FOCI_N_AND,       /* kids */
    FOCI_N_COMPARE,   /* kids, each but the first an OPERAND */
    FOCI_N_MATH,      /* kids, each but the first an OPERAND */
    FOCI_N_CONCAT,    /* kids */
    FOCI_N_OPERAND,   /* op, a */
    FOCI_N_CONDITION, /* b if a else c; c may be NULL */
    FOCI_N_MEMBER,    /* name.(constant): a namespace's, as a target */
    /* statements */
    FOCI_N_TEXT,         /* constant */
    FOCI_N_PRINT,        /* a */
    FOCI_N_IF,           /* kids: BRANCH */
    FOCI_N_BRANCH,       /* kids when a holds; a NULL: else */
    FOCI_N_FOR,          /* a target, b what, c condition or NULL, kids, others: the else part */
    FOCI_N_SET,          /* a target, b value */
    FOCI_N_SET_BLOCK,    /* a target, b filters or NULL, kids */
    FOCI_N_FILTER_BLOCK, /* b filters, kids */
    FOCI_N_MACRO,        /* name, others: PARAMETER, kids */
    FOCI_N_PARAMETER,    /* name, a default or NULL */
    FOCI_N_WITH,         /* others: SET, kids */
    FOCI_N_BREAK,
    FOCI_N_CONTINUE
} foci_node_kind;

typedef struct foci_node {
    foci_node_kind kind;
    int32_t line;
    int32_t op; /* of an OPERAND: its characters, FOCI_OP */
    foci_chars name;
    foci_value constant;
    const struct foci_builtin *builtin;
    struct foci_node *a, *b, *c;
    struct foci_node *kids, *others; /* first of each list */
    struct foci_node *next;          /* in its list */
} foci_node;

/* An operator as a number. "in" and "not in" count as 'i' and 'n'. */
#define FOCI_OP(first, second) ((first) | (second) << 8)

typedef enum foci_token_kind {
    FOCI_T_END,
    FOCI_T_TEXT,
    FOCI_T_PRINT_BEGIN,
    FOCI_T_PRINT_END,
    FOCI_T_BLOCK_BEGIN,
    FOCI_T_BLOCK_END,
    FOCI_T_NAME,
    FOCI_T_STRING, /* with its quotes */
    FOCI_T_INT,
    FOCI_T_FLOAT,
    FOCI_T_OPERATOR
} foci_token_kind;

typedef struct foci_token {
    foci_token_kind kind;
    int32_t line;
    int32_t op;
    foci_chars text;
} foci_token;

typedef struct foci_lexer {
    focal_ctx *ctx;
    const char *begin, *at, *end; /* line ends are all \n here */
    int32_t line;
    enum { FOCI_IN_TEXT, FOCI_IN_PRINT, FOCI_IN_BLOCK, FOCI_IN_RAW } state;
    bool has_begin;     /* the opening of this state was not handed out yet */
    bool is_line_start; /* what was read last ended a line */
    int32_t depth;      /* of open brackets */
    char open[FOCI_TEMPLATE_NESTING];
} foci_lexer;

/* FOCAL_EFORMAT with the line and what is wrong there. */
focal_status foci_lexer_next(foci_lexer *x, foci_token *token);

typedef struct foci_parser {
    focal_ctx *ctx;
    foci_store *store;
    foci_lexer lexer;
    foci_token token, ahead; /* the current one and, when has_ahead, the one behind */
    bool has_ahead;
    int32_t depth;      /* of blocks and expressions */
    int32_t loop_depth; /* of loops that break and continue reach from here */
    int32_t any_loop_depth;
    int32_t macro_depth;
    int32_t frame_depth; /* of bodies with a scope of their own; 0: the template's own level */
    int32_t if_depth;
    foci_chars seen[FOCI_TEMPLATE_NAMES]; /* names met at the template's own level */
    int32_t seen_count;
    foci_node *unset; /* see foci_template_parse() */
} foci_parser;

/* The tree of a source, whose line ends may be of any kind; it lives in the store. FOCAL_EFORMAT
 * for what is no Jinja, FOCAL_EUNSUPPORTED for what we do not know; both name the line. *unset
 * lists names (NAME nodes) that begin undefined, whatever the caller's variables say: jinja2 takes
 * a name for the template's own when the first it meets at the outermost level, not under an if, is
 * a set. Loops and macros before that set then see nothing. */
focal_status foci_template_parse(focal_ctx *ctx, foci_store *store, foci_chars source,
                                 foci_node **body, foci_node **unset);

/* Between the parser's files. */
focal_status foci_parse_fail(const foci_parser *p, focal_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void foci_parse_report(const foci_parser *p, const char *expected);
/* The current token is not what was expected. In line, so that an analyzer sees that it fails. */
static inline focal_status foci_parse_unexpected(const foci_parser *p, const char *expected)
{
    foci_parse_report(p, expected);
    return FOCAL_EFORMAT;
}
focal_status foci_parse_advance(foci_parser *p);
focal_status foci_parse_peek(foci_parser *p, foci_token *ahead);
focal_status foci_parse_enter(foci_parser *p); /* one level deeper; p->depth-- undoes it */
bool foci_parse_at_name(const foci_parser *p, const char *name);
bool foci_parse_at_op(const foci_parser *p, int32_t op);
focal_status foci_parse_expect_op(foci_parser *p, int32_t op);
focal_status foci_parse_expect_name(foci_parser *p, foci_chars *name);
focal_status foci_parse_node(foci_parser *p, foci_node_kind kind, foci_node **out);
/* A name is read, or set, here. */
focal_status foci_parse_note(foci_parser *p, foci_chars name, bool is_set);
focal_status foci_parse_expression(foci_parser *p, bool with_condition, foci_node **out);
/* Expressions between commas; `end` (may be NULL) is a name that ends them. */
focal_status foci_parse_tuple(foci_parser *p, bool with_condition, bool in_parentheses,
                              const char *end, foci_node **out);
/* What stands behind a value as | filter ...; start: the first has no bar before it. */
focal_status foci_parse_filters(foci_parser *p, bool start, foci_node **node);
focal_status foci_parse_primary(foci_parser *p, foci_node **out);
/* The literal's value, in the store. */
focal_status foci_parse_string(foci_parser *p, foci_chars literal, foci_chars *out);
focal_status foci_parse_number(foci_parser *p, foci_value *out);

#endif /* FOCI_TEXT_TEMPLATE_NODE_H */
