# Round trips over the payload, both axes logarithmic: the rows of curves.csv as an SVG.
BEGIN {
    FS = ","
    left = 70; top = 30; width = 330; height = 300; gap = 40
    decades = 5
    names["pipe wait=poll"] = "pipe"; names["causeway-sw"] = "Causeway"; names["causeway-sw wait=block"] = "Causeway"
    names["causeway-sw receive=in-place"] = names["causeway-sw receive=in-place wait=block"] = "Causeway, read in place"
    colors["pipe"] = "#d9480f"; colors["Causeway"] = "#1971c2"; colors["Causeway, read in place"] = "#2f9e44"
    panels["same-cpu"] = 0; panels["two-cpus"] = 1
    titles["same-cpu"] = "both on one CPU"; titles["two-cpus"] = "on two CPUs"
}
function x(bytes, place) { return left + panels[place] * (width + gap) + width * log(bytes) / log(4194304) }
function y(us) { return top + height * (1 - (log(us) / log(10) + 1) / decades) }
NR > 1 && $2 in names {
    key = $1 SUBSEP names[$2]
    points[key] = points[key] sprintf("%.1f,%.1f ", x($3, $1), y($4))
    bars[key] = bars[key] sprintf("M%.1f %.1fV%.1f", x($3, $1), y($5), y($6))
}
END {
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"13\">\n", left + 2 * width + gap + 20, top + height + 90
    print "<title>Round-trip time over payload: a pipe and Causeway, on one CPU and on two</title>"
    print "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
    split("100 ns,1 µs,10 µs,100 µs,1 ms,10 ms", ticks, ",")
    count = split("1,64,4096,65536,1048576,4194304", sizes, ",")
    split("1 B,64 B,4 KiB,64 KiB,1 MiB,4 MiB", labels, ",")
    for (place in panels) {
        from = x(1, place)
        printf "<text x=\"%d\" y=\"18\" font-weight=\"bold\">%s</text>\n", from, titles[place]
        for (i = 0; i <= decades; i++) {
            at = y(10 ^ (i - 1))
            printf "<path d=\"M%.1f %.1fh%d\" stroke=\"#dee2e6\"/>\n", from, at, width
            if (panels[place] == 0) printf "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left - 8, at + 4, ticks[i + 1]
        }
        for (i = 1; i <= count; i++)
            printf "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\" font-size=\"11\">%s</text>\n", x(sizes[i], place), top + height + 18, i == count ? "start" : "middle", i == count ? "" : labels[i]
    }
    for (key in points) {
        split(key, part, SUBSEP)
        printf "<path d=\"%s\" stroke=\"%s\" stroke-opacity=\"0.4\" stroke-width=\"4\"/>\n", bars[key], colors[part[2]]
        printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", points[key], colors[part[2]]
    }
    at = left
    split("pipe;Causeway;Causeway, read in place", order, ";")
    for (i = 1; i <= 3; i++) {
        printf "<path d=\"M%d %dh24\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"%d\" y=\"%d\">%s</text>\n", at, top + height + 50, colors[order[i]], at + 30, top + height + 54, order[i]
        at += i == 1 ? 90 : 120
    }
    printf "<text x=\"%d\" y=\"%d\" fill=\"#495057\">time of a round trip over its payload: medians, and as bars their 95 %% intervals</text>\n", left, top + height + 78
    print "</svg>"
}
