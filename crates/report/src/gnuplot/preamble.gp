# Figures of a keyrack run, for gnuplot 5.4 or later. In the directory of this file:
#   gnuplot plot.gp                       draws figures/*.png
#   gnuplot -e "format='svg'" plot.gp     draws figures/*.svg; pdf is known too
# Rates are per second, times nanoseconds.
if (!exists("format")) format = 'png'
if (strstrt(' png svg pdf ', ' ' . format . ' ') == 0) exit error 'format is png, svg or pdf'
set encoding utf8
system "mkdir -p figures"

# Sizes are pixels at 150 to the inch. Nothing in a text is a command to the terminal.
png = strstrt(GPVAL_TERMINALS, ' pngcairo ') ? 'pngcairo' : 'png'
as_png(w, h) = sprintf('%s noenhanced size %d,%d', png, w, h)
as_svg(w, h) = sprintf('svg noenhanced size %d,%d fontscale 1.33 background "white"', w, h)
as_pdf(w, h) = sprintf('pdfcairo noenhanced size %.3fin,%.3fin', w / 150.0, h / 150.0) \
  . ' fontscale 0.48'
kind(w, h) = format eq 'svg' ? as_svg(w, h) : format eq 'pdf' ? as_pdf(w, h) : as_png(w, h)
terminal(w, h) = 'set terminal ' . kind(w, h) . ' font "sans,12" linewidth 1.5'

# Rows of timeline.tsv, which go into a table of samples by key. The array most has the largest
# value of each key, -1 without any; the variable latest is the last moment. Samples of repeats are
# averaged within bins of bin_s seconds. A curve without samples lies at -1, where no axis reaches,
# since gnuplot warns of curves that are empty.
timeline_lines = int(system("test -f timeline.tsv && wc -l < timeline.tsv || echo 0"))
is_cell(w, e, t, s) = strcol(1) eq w && strcol(2) eq e && column(3) == t && column(5) == s
larger(a, b) = a > b ? a : b
bin(s) = bin_s > 0 ? bin_s * floor(s / bin_s + 0.5) : s
sample_x(key) = most[key + 1] < 0 ? -1 : column(1) == key ? bin(column(2)) : NaN
sample_y(key, divisor) = column(3) / divisor
