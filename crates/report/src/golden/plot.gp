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
array most[200]

set linetype 1 linecolor rgb '#0072B2' linewidth 1.6 pointtype 7 pointsize 1.1 dashtype 1
set linetype 2 linecolor rgb '#D55E00' linewidth 1.6 pointtype 5 pointsize 1.1 dashtype 1

# ---- throughput_compare
$throughput_compare << EOD
# skiplist 1: group, value, low, high, mark
0 280000 266000 294000 280k


# btree 1: group, value, low, high, mark
0 180000 171000 189000 180k!


EOD
reset
eval terminal(864, 718)
set output 'figures/throughput_compare.' . format
set multiplot
set tics nomirror out font ',12'
set border 3 linewidth 0.8
set grid ytics linecolor rgb '#dddddd' linetype 1 linewidth 0.6 dashtype 1
unset key
set lmargin at screen 0.1296
set rmargin at screen 0.9676
set tmargin at screen 0.7326
set bmargin at screen 0.1699
unset title
unset xlabel
unset logscale
set xrange [-0.5:0.5]
set xtics scale 0 ('ycsb/a'."\n".'4 threads' 0)
set yrange [0:3.234000e2]
set ytics auto
set ylabel 'thousand units/s' font ',13'
set boxwidth 0.2933 absolute
plot $throughput_compare index 0 using ($1-0.1667):($2/1000) with boxes fillstyle solid 0.9 noborder linetype 1 notitle, \
  $throughput_compare index 0 using ($1-0.1667):($3/1000):(0):(($4-$3)/1000) with vectors heads size screen 0.0058,90 linecolor rgb '#333333' linewidth 0.9 notitle, \
  $throughput_compare index 0 using ($1-0.1667):($4/1000):5 with labels offset 0,0.7 font ',10' notitle, \
  $throughput_compare index 1 using ($1+0.1667):($2/1000) with boxes fillstyle solid 0.9 noborder linetype 2 notitle, \
  $throughput_compare index 1 using ($1+0.1667):($3/1000):(0):(($4-$3)/1000) with vectors heads size screen 0.0058,90 linecolor rgb '#333333' linewidth 0.9 notitle, \
  $throughput_compare index 1 using ($1+0.1667):($4/1000):5 with labels offset 0,0.7 font ',10' notitle
set lmargin at screen 0.0000
set rmargin at screen 1.0000
set tmargin at screen 1.0000
set bmargin at screen 0.0000
unset title
unset xlabel
unset ylabel
unset tics
unset border
unset grid
unset logscale
set xrange [0:1]
set yrange [0:1]
set label 1 'Throughput at the peak thread count' at screen 0.0278,0.9582 left font ',18'
set label 2 'Z80 at 4 MHz, keyrack 0.1.0, 2023-11-14T22:13:20Z' at screen 0.0278,0.9192 left font ',10' textcolor rgb '#555555'
set label 3 'keyrack bench ycsb/a -P '."\047".'name=it'."\047"."\134"."\047"."\047".'s'."\047" at screen 0.0278,0.8858 left font ',10' textcolor rgb '#555555'
set label 4 '! this is a debug build' at screen 0.0278,0.8524 left font ',10' textcolor rgb '#555555'
set label 5 'error bars: smallest and largest of the repeats' at screen 0.0278,0.8189 left font ',10' textcolor rgb '#555555'
set label 6 '! marks cells with flags: the report gives the reasons' at screen 0.0278,0.7855 left font ',10' textcolor rgb '#555555'
set key at screen 0.5,0.0139 center bottom horizontal maxcols 2 Left reverse samplen 2.5 font ',12'
plot NaN with boxes fillstyle solid 0.9 noborder linetype 1 title 'skiplist 1', \
  NaN with boxes fillstyle solid 0.9 noborder linetype 2 title 'btree 1'
unset multiplot
unset output

# ---- scalability
$scalability << EOD
# ycsb/a: skiplist 1
1 140000 133000 147000
4 280000 266000 294000


# ycsb/a: btree 1
1 90000 85500 94500
4 180000 171000 189000


EOD
reset
eval terminal(864, 664)
set output 'figures/scalability.' . format
set multiplot
set tics nomirror out font ',12'
set border 3 linewidth 0.8
set grid ytics linecolor rgb '#dddddd' linetype 1 linewidth 0.6 dashtype 1
unset key
set lmargin at screen 0.1296
set rmargin at screen 0.9676
set tmargin at screen 0.6988
set bmargin at screen 0.1837
set title 'ycsb/a' font ',14'
unset logscale
set xlabel 'threads' font ',13'
set logscale x 2
set xrange [9.460576e-1:4.228072e0]
set xtics scale 0.6 ('1' 1, '4' 4)
set ylabel 'thousand units/s' font ',13'
set ytics auto
set format y '%g'
set yrange [0:3.234000e2]
plot $scalability index 0 using 1:($2/1000):($3/1000):($4/1000) with yerrorbars linetype 1 linewidth 0.9 dashtype 1 pointsize 0 notitle, \
  $scalability index 0 using 1:($2/1000) with linespoints linetype 1 notitle, \
  $scalability index 1 using 1:($2/1000):($3/1000):($4/1000) with yerrorbars linetype 2 linewidth 0.9 dashtype 1 pointsize 0 notitle, \
  $scalability index 1 using 1:($2/1000) with linespoints linetype 2 notitle
set lmargin at screen 0.0000
set rmargin at screen 1.0000
set tmargin at screen 1.0000
set bmargin at screen 0.0000
unset title
unset xlabel
unset ylabel
unset tics
unset border
unset grid
unset logscale
set xrange [0:1]
set yrange [0:1]
set label 1 'Scalability' at screen 0.0278,0.9548 left font ',18'
set label 2 'Z80 at 4 MHz, keyrack 0.1.0, 2023-11-14T22:13:20Z' at screen 0.0278,0.9127 left font ',10' textcolor rgb '#555555'
set label 3 'keyrack bench ycsb/a -P '."\047".'name=it'."\047"."\134"."\047"."\047".'s'."\047" at screen 0.0278,0.8765 left font ',10' textcolor rgb '#555555'
set label 4 '! this is a debug build' at screen 0.0278,0.8404 left font ',10' textcolor rgb '#555555'
set label 5 'error bars: smallest and largest of the repeats' at screen 0.0278,0.8042 left font ',10' textcolor rgb '#555555'
set key at screen 0.5,0.0151 center bottom horizontal maxcols 2 Left reverse samplen 2.5 font ',12'
plot NaN with linespoints linetype 1 title 'skiplist 1', \
  NaN with linespoints linetype 2 title 'btree 1'
unset multiplot
unset output

# ---- latency_p50_threads_ycsb_a
$latency_p50_threads_ycsb_a << EOD
# get: skiplist 1
1 492 492 492
4 762 762 762


# get: btree 1
1 492 492 492
4 762 762 762


# put: skiplist 1
1 1131 1131 1131
4 1131 1131 1131


# put: btree 1
1 1131 1131 1131
4 1131 1131 1131


EOD
reset
eval terminal(1440, 640)
set output 'figures/latency_p50_threads_ycsb_a.' . format
set multiplot
set tics nomirror out font ',12'
set border 3 linewidth 0.8
set grid ytics linecolor rgb '#dddddd' linetype 1 linewidth 0.6 dashtype 1
unset key
set lmargin at screen 0.0778
set rmargin at screen 0.4806
set tmargin at screen 0.7250
set bmargin at screen 0.1906
set title 'get' font ',14'
unset logscale
set xlabel 'threads' font ',13'
set logscale x 2
set xrange [9.460576e-1:4.228072e0]
set xtics scale 0.6 ('1' 1, '4' 4)
set ylabel 'ns' font ',13'
set ytics auto
set format y '%g'
set yrange [0:8.382000e2]
plot $latency_p50_threads_ycsb_a index 0 using 1:($2/1) with linespoints linetype 1 notitle, \
  $latency_p50_threads_ycsb_a index 1 using 1:($2/1) with linespoints linetype 2 notitle
set lmargin at screen 0.5778
set rmargin at screen 0.9806
set tmargin at screen 0.7250
set bmargin at screen 0.1906
set title 'put' font ',14'
unset logscale
set xlabel 'threads' font ',13'
set logscale x 2
set xrange [9.460576e-1:4.228072e0]
set xtics scale 0.6 ('1' 1, '4' 4)
set ylabel 'ns' font ',13'
set ytics auto
set format y '%g'
set yrange [0:1.244100e3]
plot $latency_p50_threads_ycsb_a index 2 using 1:($2/1) with linespoints linetype 1 notitle, \
  $latency_p50_threads_ycsb_a index 3 using 1:($2/1) with linespoints linetype 2 notitle
set lmargin at screen 0.0000
set rmargin at screen 1.0000
set tmargin at screen 1.0000
set bmargin at screen 0.0000
unset title
unset xlabel
unset ylabel
unset tics
unset border
unset grid
unset logscale
set xrange [0:1]
set yrange [0:1]
set label 1 'Median service time: ycsb/a' at screen 0.0167,0.9531 left font ',18'
set label 2 'Z80 at 4 MHz, keyrack 0.1.0, 2023-11-14T22:13:20Z' at screen 0.0167,0.9094 left font ',10' textcolor rgb '#555555'
set label 3 'keyrack bench ycsb/a -P '."\047".'name=it'."\047"."\134"."\047"."\047".'s'."\047" at screen 0.0167,0.8719 left font ',10' textcolor rgb '#555555'
set label 4 '! this is a debug build' at screen 0.0167,0.8344 left font ',10' textcolor rgb '#555555'
set key at screen 0.5,0.0156 center bottom horizontal maxcols 2 Left reverse samplen 2.5 font ',12'
plot NaN with linespoints linetype 1 title 'skiplist 1', \
  NaN with linespoints linetype 2 title 'btree 1'
unset multiplot
unset output

# ---- latency_p99_threads_ycsb_a
$latency_p99_threads_ycsb_a << EOD
# get: skiplist 1
1 492 492 492
4 762 762 762


# get: btree 1
1 492 492 492
4 762 762 762


# put: skiplist 1
1 2407 2407 2407
4 2407 2407 2407


# put: btree 1
1 2407 2407 2407
4 2407 2407 2407


EOD
reset
eval terminal(1440, 640)
set output 'figures/latency_p99_threads_ycsb_a.' . format
set multiplot
set tics nomirror out font ',12'
set border 3 linewidth 0.8
set grid ytics linecolor rgb '#dddddd' linetype 1 linewidth 0.6 dashtype 1
unset key
set lmargin at screen 0.0778
set rmargin at screen 0.4806
set tmargin at screen 0.7250
set bmargin at screen 0.1906
set title 'get' font ',14'
unset logscale
set xlabel 'threads' font ',13'
set logscale x 2
set xrange [9.460576e-1:4.228072e0]
set xtics scale 0.6 ('1' 1, '4' 4)
set ylabel 'ns' font ',13'
set ytics auto
set format y '%g'
set yrange [0:8.382000e2]
plot $latency_p99_threads_ycsb_a index 0 using 1:($2/1) with linespoints linetype 1 notitle, \
  $latency_p99_threads_ycsb_a index 1 using 1:($2/1) with linespoints linetype 2 notitle
set lmargin at screen 0.5778
set rmargin at screen 0.9806
set tmargin at screen 0.7250
set bmargin at screen 0.1906
set title 'put' font ',14'
unset logscale
set xlabel 'threads' font ',13'
set logscale x 2
set xrange [9.460576e-1:4.228072e0]
set xtics scale 0.6 ('1' 1, '4' 4)
set ylabel 'us' font ',13'
set ytics auto
set format y '%g'
set yrange [0:2.647700e0]
plot $latency_p99_threads_ycsb_a index 2 using 1:($2/1000) with linespoints linetype 1 notitle, \
  $latency_p99_threads_ycsb_a index 3 using 1:($2/1000) with linespoints linetype 2 notitle
set lmargin at screen 0.0000
set rmargin at screen 1.0000
set tmargin at screen 1.0000
set bmargin at screen 0.0000
unset title
unset xlabel
unset ylabel
unset tics
unset border
unset grid
unset logscale
set xrange [0:1]
set yrange [0:1]
set label 1 '99th percentile of the service time: ycsb/a' at screen 0.0167,0.9531 left font ',18'
set label 2 'Z80 at 4 MHz, keyrack 0.1.0, 2023-11-14T22:13:20Z' at screen 0.0167,0.9094 left font ',10' textcolor rgb '#555555'
set label 3 'keyrack bench ycsb/a -P '."\047".'name=it'."\047"."\134"."\047"."\047".'s'."\047" at screen 0.0167,0.8719 left font ',10' textcolor rgb '#555555'
set label 4 '! this is a debug build' at screen 0.0167,0.8344 left font ',10' textcolor rgb '#555555'
set key at screen 0.5,0.0156 center bottom horizontal maxcols 2 Left reverse samplen 2.5 font ',12'
plot NaN with linespoints linetype 1 title 'skiplist 1', \
  NaN with linespoints linetype 2 title 'btree 1'
unset multiplot
unset output

# ---- timeline_throughput
if (timeline_lines > 1) {
reset
eval terminal(864, 640)
set output 'figures/timeline_throughput.' . format
set multiplot
set tics nomirror out font ',12'
set border 3 linewidth 0.8
set grid ytics linecolor rgb '#dddddd' linetype 1 linewidth 0.6 dashtype 1
unset key
set datafile missing NaN
do for [i = 1:|most|] { most[i] = -1 }
latest = 0
set datafile separator tab
set table $samples
plot 'timeline.tsv' using ($0 == 0 ? -1 : strcol(6) ne 'run' ? NaN : \
  (c = (is_cell('ycsb/a', 'skiplist 1', 4, 1) ? 0 : is_cell('ycsb/a', 'btree 1', 4, 1) ? 1 : -1), m = (strcol(8) eq 'wu_per_s' ? 0 : -1), c < 0 || m < 0 ? NaN : \
  (k = 100 * c + m, most[k + 1] = larger(most[k + 1], column(9)), \
  latest = larger(latest, column(7)), k))) \
  :($0 == 0 ? 0 : column(7)):($0 == 0 ? 0 : column(9)) with table
unset table
set datafile separator whitespace
set lmargin at screen 0.1296
set rmargin at screen 0.9676
set tmargin at screen 0.7250
set bmargin at screen 0.1906
set title 'ycsb/a (4 threads)' font ',14'
unset logscale
set xlabel 'elapsed s' font ',13'
set xtics scale 0.6 auto
set ylabel 'thousand units/s' font ',13'
set ytics auto
set format y '%g'
bin_s = 0.1
top = larger(larger(-1, most[1] / 1000), most[101] / 1000)
set xrange [0:larger(latest, 0.001)]
set yrange [0:(top > 0 ? top * 1.1 : 1)]
if (top < 0) {
  set label 1 'no samples' at graph 0.5,0.5 center textcolor rgb '#777777'
}
plot $samples using (sample_x(0)):(sample_y(0, 1000)) smooth unique with linespoints linetype 1 pointsize 0.4 notitle, \
  $samples using (sample_x(100)):(sample_y(100, 1000)) smooth unique with linespoints linetype 2 pointsize 0.4 notitle
unset label 1
unset datafile missing
set lmargin at screen 0.0000
set rmargin at screen 1.0000
set tmargin at screen 1.0000
set bmargin at screen 0.0000
unset title
unset xlabel
unset ylabel
unset tics
unset border
unset grid
unset logscale
set xrange [0:1]
set yrange [0:1]
set label 1 'Throughput over time' at screen 0.0278,0.9531 left font ',18'
set label 2 'Z80 at 4 MHz, keyrack 0.1.0, 2023-11-14T22:13:20Z' at screen 0.0278,0.9094 left font ',10' textcolor rgb '#555555'
set label 3 'keyrack bench ycsb/a -P '."\047".'name=it'."\047"."\134"."\047"."\047".'s'."\047" at screen 0.0278,0.8719 left font ',10' textcolor rgb '#555555'
set label 4 '! this is a debug build' at screen 0.0278,0.8344 left font ',10' textcolor rgb '#555555'
set key at screen 0.5,0.0156 center bottom horizontal maxcols 2 Left reverse samplen 2.5 font ',12'
plot NaN with linespoints linetype 1 title 'skiplist 1', \
  NaN with linespoints linetype 2 title 'btree 1'
unset multiplot
unset output
}

# ---- seed_progress
if (timeline_lines > 1) {
reset
eval terminal(864, 640)
set output 'figures/seed_progress.' . format
set multiplot
set tics nomirror out font ',12'
set border 3 linewidth 0.8
set grid ytics linecolor rgb '#dddddd' linetype 1 linewidth 0.6 dashtype 1
unset key
set datafile missing NaN
do for [i = 1:|most|] { most[i] = -1 }
latest = 0
set datafile separator tab
set table $samples
plot 'timeline.tsv' using ($0 == 0 ? -1 : strcol(6) ne 'seed' ? NaN : \
  (c = (is_cell('ycsb/a', 'skiplist 1', 1, 1) && column(10) == 1 ? 0 : is_cell('ycsb/a', 'btree 1', 1, 1) && column(10) == 1 ? 1 : -1), m = (strcol(8) eq 'seed_keys' ? 0 : -1), c < 0 || m < 0 ? NaN : \
  (k = 100 * c + m, most[k + 1] = larger(most[k + 1], column(9)), \
  latest = larger(latest, column(7)), k))) \
  :($0 == 0 ? 0 : column(7)):($0 == 0 ? 0 : column(9)) with table
unset table
set datafile separator whitespace
set lmargin at screen 0.1296
set rmargin at screen 0.9676
set tmargin at screen 0.7250
set bmargin at screen 0.1906
set title 'ycsb/a' font ',14'
unset logscale
set xlabel 'elapsed s' font ',13'
set xtics scale 0.6 auto
set ylabel 'thousand keys' font ',13'
set ytics auto
set format y '%g'
bin_s = 0
top = larger(larger(-1, most[1] / 1000), most[101] / 1000)
set xrange [0:larger(latest, 0.001)]
set yrange [0:(top > 0 ? top * 1.1 : 1)]
if (top < 0) {
  set label 1 'no samples' at graph 0.5,0.5 center textcolor rgb '#777777'
}
plot $samples using (sample_x(0)):(sample_y(0, 1000)) smooth unique with linespoints linetype 1 pointsize 0.4 notitle, \
  $samples using (sample_x(100)):(sample_y(100, 1000)) smooth unique with linespoints linetype 2 pointsize 0.4 notitle
unset label 1
unset datafile missing
set lmargin at screen 0.0000
set rmargin at screen 1.0000
set tmargin at screen 1.0000
set bmargin at screen 0.0000
unset title
unset xlabel
unset ylabel
unset tics
unset border
unset grid
unset logscale
set xrange [0:1]
set yrange [0:1]
set label 1 'Progress of the load' at screen 0.0278,0.9531 left font ',18'
set label 2 'Z80 at 4 MHz, keyrack 0.1.0, 2023-11-14T22:13:20Z' at screen 0.0278,0.9094 left font ',10' textcolor rgb '#555555'
set label 3 'keyrack bench ycsb/a -P '."\047".'name=it'."\047"."\134"."\047"."\047".'s'."\047" at screen 0.0278,0.8719 left font ',10' textcolor rgb '#555555'
set label 4 '! this is a debug build' at screen 0.0278,0.8344 left font ',10' textcolor rgb '#555555'
set key at screen 0.5,0.0156 center bottom horizontal maxcols 2 Left reverse samplen 2.5 font ',12'
plot NaN with linespoints linetype 1 title 'skiplist 1', \
  NaN with linespoints linetype 2 title 'btree 1'
unset multiplot
unset output
}
