/* The median of a series of readings. */
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns 0, and the median in *result; -1 if there is none or no memory. */
int median(const double *readings, size_t count, double *result)
{
    double *sorted;

    if (count == 0 || readings == NULL)
        return -1;
    sorted = malloc(count * sizeof *sorted);
    if (sorted == NULL)
        return -1;
    memcpy(sorted, readings, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    if (count % 2 == 1)
        *result = sorted[count / 2];
    else
        *result = (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0;
    free(sorted);
    return 0;
}

/* The share of readings that lie within `width` of the median. */
double share_near_median(const double *readings, size_t count, double width)
{
    double middle;
    size_t i, near = 0;

    if (median(readings, count, &middle) != 0)
        return 0.0;
    for (i = 0; i < count; i++) {
        double distance = readings[i] - middle;
        if (distance < 0)
            distance = -distance;
        if (distance <= width)
            near++;
    }
    return (double)near / (double)count;
}
