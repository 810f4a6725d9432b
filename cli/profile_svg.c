/* A picture of a profile: what the time of all batches, and of the slowest, went to; and how long
 * the stages that matter took, from the median to the slowest batch. */
#include "cli/profile.h"

#include <math.h>

enum { WIDTH = 960, HEIGHT = 640, LEFT = 150, RIGHT = 870 };
enum { BARS_TOP = 96, BAR_HEIGHT = 34, LEGEND_TOP = 214, CURVE_TOP = 300, CURVE_BOTTOM = 580 };
enum { CURVES_MAX = 5 };

/* What the writer does in blues, the waiting for the device in reds, the way back in greens. */
static const char *const colours[RF_STAGES] = {
    "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#fdd0a2", "#2171b5", "#08519c",
    "#08306b", "#fdae6b", "#fd8d3c", "#e6550d", "#a1d99b", "#41ab5d", "#006d2c"};

static void put_escaped(FILE *f, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '<')
            fputs("&lt;", f);
        else if (*s == '>')
            fputs("&gt;", f);
        else if (*s == '&')
            fputs("&amp;", f);
        else if (*s == '"')
            fputs("&quot;", f);
        else
            fputc(*s, f);
    }
}

static void text(FILE *f, double x, double y, const char *anchor, const char *s)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    put_escaped(f, s);
    fputs("</text>\n", f);
}

static void text_of_ns(char *out, size_t bytes, double ns)
{
    if (ns >= 1e9)
        snprintf(out, bytes, "%.3g s", ns / 1e9);
    else if (ns >= 1e6)
        snprintf(out, bytes, "%.3g ms", ns / 1e6);
    else if (ns >= 1e3)
        snprintf(out, bytes, "%.3g us", ns / 1e3);
    else
        snprintf(out, bytes, "%.3g ns", ns);
}

/* ---- bars ---- */

static void bar(FILE *f, double y, const char *name, const int64_t *sum, double mean_ns)
{
    double all = 0, x = LEFT;
    char label[64];
    for (int i = 0; i < RF_STAGES; i++)
        all += (double)sum[i];
    text(f, LEFT - 10, y + 15, "end", name);
    text_of_ns(label, sizeof label, mean_ns);
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" class=\"dim\">mean %s</text>\n",
            LEFT - 10, y + 30, label);
    for (uint32_t i = 0; i < RF_STAGES; i++) {
        double width = (RIGHT - LEFT) * bench_ratio((double)sum[i], all);
        if (width <= 0) continue;
        fprintf(f,
                "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\">"
                "<title>%s: %.2f %%</title></rect>\n",
                x, y, width, BAR_HEIGHT, colours[i], rf_stage_name(i),
                100 * bench_ratio((double)sum[i], all));
        x += width;
    }
}

static void legend(FILE *f)
{
    for (uint32_t i = 0; i < RF_STAGES; i++) {
        int x = LEFT + (int)(i % 7) * 103, y = LEGEND_TOP + (int)(i / 7) * 22;
        fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, y,
                colours[i]);
        text(f, x + 18, y + 11, "start", rf_stage_name(i));
    }
}

/* ---- curves ---- */

struct scale {
    double low, high; /* log10 of ns; low is 2: what is below 100 ns lies on the axis */
};

static double y_of(const struct scale *s, double ns)
{
    double share = (log10(ns < 100 ? 100 : ns) - s->low) / (s->high - s->low);
    return CURVE_BOTTOM - share * (CURVE_BOTTOM - CURVE_TOP);
}

/* From the median, at 0.3, one step a nine: p90 1, p99 2, ..., p99.999 5. */
static double x_of(double nines)
{
    return LEFT + nines / 5 * (RIGHT - LEFT);
}

static void axes(FILE *f, const struct scale *s)
{
    static const struct {
        const char *name;
        double nines;
    } mark[] = {{"p50", 0.30103}, {"p90", 1},    {"p99", 2},
                {"p99.9", 3},     {"p99.99", 4}, {"p99.999", 5}};
    char label[32];
    for (int power = (int)s->low; power <= (int)s->high; power++) {
        double y = y_of(s, pow(10, power));
        text_of_ns(label, sizeof label, pow(10, power));
        fprintf(f, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>\n", LEFT, y,
                RIGHT, y);
        text(f, LEFT - 10, y + 4, "end", label);
    }
    for (size_t i = 0; i < sizeof mark / sizeof mark[0]; i++) {
        double x = x_of(mark[i].nines);
        fprintf(f, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"grid\"/>\n", x,
                CURVE_TOP, x, CURVE_BOTTOM);
        text(f, x, CURVE_BOTTOM + 18, "middle", mark[i].name);
    }
}

/* Labels stand behind the curves' ends, below one another where those meet. */
struct labels {
    double y[CURVES_MAX + 1];
    int count;
};

static double place_label(struct labels *l, double y)
{
    for (int i = 0; i < l->count; i++) {
        if (fabs(l->y[i] - y) >= 14) continue;
        y = l->y[i] + 14;
        i = -1;
    }
    l->y[l->count++] = y;
    return y;
}

static void curve(FILE *f, const struct scale *s, const struct hist *h, struct labels *labels,
                  const char *name, const char *colour)
{
    bool is_total = strcmp(name, "total") == 0;
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" points=\"", colour,
            is_total ? "2.5" : "1.5");
    for (int tenths = 0; tenths <= 50; tenths++) {
        double nines = tenths / 10.0;
        fprintf(f, "%.1f,%.1f ", x_of(nines),
                y_of(s, (double)hist_quantile(h, 1 - pow(10, -nines))));
    }
    fprintf(f, "\"><title>%s</title></polyline>\n", name);
    double end = place_label(labels, y_of(s, (double)hist_quantile(h, 0.99999)) + 4);
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" style=\"fill:%s\">%s</text>\n", RIGHT + 6, end, colour,
            name);
}

/* The stages that most of the time went to. */
static void curves(FILE *f, const struct profile *p)
{
    double high = (double)hist_quantile(&p->total, 1);
    const struct scale s = {2, ceil(log10(high < 1000 ? 1000 : high))};
    bool shown[RF_STAGES] = {false};
    struct labels labels = {.count = 0};
    axes(f, &s);
    curve(f, &s, &p->total, &labels, "total", "#222");
    for (int n = 0; n < CURVES_MAX; n++) {
        uint32_t most = RF_STAGES;
        for (uint32_t i = 0; i < RF_STAGES; i++)
            if (!shown[i] && p->stage_sum[i] > 0 &&
                (most == RF_STAGES || p->stage_sum[i] > p->stage_sum[most]))
                most = i;
        if (most == RF_STAGES) break;
        shown[most] = true;
        curve(f, &s, &p->stage[most], &labels, rf_stage_name(most), colours[most]);
    }
}

void profile_svg(const struct profile *p, const char *title, FILE *f)
{
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" font-family=\"system-ui, sans-serif\" font-size=\"13\" "
            "color=\"#222\">\n"
            "<style>text{fill:currentColor}.dim{fill:#777;font-size:11px}"
            ".grid{stroke:#ddd;stroke-width:1}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    fputs("<text x=\"24\" y=\"34\" font-size=\"18\">Where a batch's time goes</text>\n", f);
    fputs("<text x=\"24\" y=\"56\" class=\"dim\">", f);
    put_escaped(f, title);
    fputs("</text>\n", f);
    bar(f, BARS_TOP, "all batches", p->stage_sum, hist_mean(&p->total));
    bar(f, BARS_TOP + 50, "slowest 0.1 %", p->slow_sum,
        bench_ratio((double)p->slow_total, (double)p->slow_count));
    legend(f);
    text(f, LEFT, CURVE_TOP - 14, "start", "how long the stages take, by percentile");
    curves(f, p);
    fputs("</svg>\n", f);
}
