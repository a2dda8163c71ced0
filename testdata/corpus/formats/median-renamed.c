// middle.c -- my own work
#include <stdlib.h>
#include <string.h>

static int cmp(const void *p, const void *q)
{
    double l = *(const double *)p, r = *(const double *)q;
    return (l > r) - (l < r);   // sign
}

int get_middle(const double *values, size_t n, double *out)
{
    double *copy;

    if (n == 0 || values == NULL)
        return -1;
    copy = malloc(n * sizeof *copy);
    if (copy == NULL)
        return -1;              // out of memory
    memcpy(copy, values, n * sizeof *copy);
    qsort(copy, n, sizeof *copy, cmp);
    if (n % 2 == 1)
        *out = copy[n / 2];
    else
        *out = (copy[n / 2 - 1] + copy[n / 2]) / 2.0;
    free(copy);
    return 0;
}

double fraction_close(const double *values, size_t n, double limit)
{
    double m;
    size_t k, hits = 0;

    if (get_middle(values, n, &m) != 0)
        return 0.0;
    for (k = 0; k < n; k++) {
        double diff = values[k] - m;
        if (diff < 0)
            diff = -diff;
        if (diff <= limit)
            hits++;
    }
    return (double)hits / (double)n;
}
