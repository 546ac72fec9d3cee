# gnuplot plot.gp draws the pictures of report.md
set encoding utf8
reset
$a0 << EOD
1 19.3504 18.2047 21.1057
2 15.6168 12.8867 17.8567
4 18.745 18.2324 19.524
8 16.9882 14.6593 18.6026
16 18.7402 17.6304 20.09
EOD
$b0 << EOD
1 18.7816 16.4293 20.538
2 25.7473 25.0708 26.376
4 31.7801 31.3072 32.0604
8 36.3475 35.0584 37.0145
16 37.7972 34.9317 41.2351
EOD
$c0 << EOD
1 18.7033 15.7293 21.7656
2 23.1956 17.1407 28.3063
4 31.8219 30.5099 33.4258
8 35.751 34.3786 36.9392
16 38.6605 37.3072 40.752
EOD
$d0 << EOD
1 18.4016 16.9866 19.4979
2 24.1638 20.6383 27.4662
4 32.3678 30.23 34.1172
8 36.8349 35.7123 37.7594
16 39.8914 38.9019 40.4429
EOD
$a1 << EOD
1 14.3448 12.2458 16.2681
2 6.52945 5.78986 7.25329
4 7.10614 6.89303 7.51533
8 6.64514 6.24373 7.20158
16 6.70242 6.66264 6.745
EOD
$b1 << EOD
1 3.8835 3.67787 4.23518
2 4.16268 4.00086 4.30641
4 4.33686 4.0504 4.61205
8 4.03198 3.982 4.09878
16 3.97381 3.84615 4.06152
EOD
$c1 << EOD
1 13.7839 11.8948 15.1587
2 17.9663 16.9064 18.7334
4 23.6435 23.3149 24.149
8 31.2272 29.3252 32.7852
16 32.45 31.8187 33.2595
EOD
$d1 << EOD
1 13.6378 11.881 15.4999
2 17.6271 15.8723 19.141
4 26.1535 24.2275 27.4017
8 31.5189 30.063 33.5942
16 32.3899 30.9907 33.4995
EOD
set terminal svg size 1040,330 enhanced font 'Helvetica,12' background rgb 'white'
set output 'throughput.svg'
set multiplot layout 1,2
unset key
set border 3 lc rgb '#555555'
set tics nomirror out
set grid y lc rgb '#e6e6e6' lt 1
set logscale x 2
set rmargin 18
set lmargin 11
set tmargin 2.5
set xlabel 'users at once' offset 0,0.4
set ylabel 'tokens/s of all users' offset 0.5,0
set xtics (1, 2, 4, 8, 16)
unset label
set label "short questions, nothing shared" at graph 0, graph 1.07 left font ',13'
unset logscale y
set yrange [0:45.3586]
set xrange [0.869565:18.4]
set label 'A  one at a time' at graph 1.02, graph 0.4132 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.7800 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.8550 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.9300 left tc rgb '#1f4e9c' font ',12'
plot $a0 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a0 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b0 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b0 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c0 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c0 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d0 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d0 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "chats of eight turns behind one system prompt" at graph 0, graph 1.07 left font ',13'
unset logscale y
set yrange [0:36.9536]
set xrange [0.869565:18.4]
set label 'A  one at a time' at graph 1.02, graph 0.1820 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.1070 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.9148 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.8398 left tc rgb '#1f4e9c' font ',12'
plot $a1 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a1 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b1 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b1 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c1 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c1 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d1 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d1 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset multiplot
set output
reset
$a0 << EOD
1 0.375214 0.340531 0.394845
2 0.926433 0.814376 1.11052
4 1.53894 1.45708 1.588
8 3.56515 3.02783 4.4716
16 6.16485 5.72319 6.60028
EOD
$b0 << EOD
1 0.435068 0.361784 0.607005
2 0.555357 0.537081 0.57313
4 0.899899 0.883735 0.911445
8 1.60157 1.51955 1.70763
16 3.97939 3.65345 4.29509
EOD
$c0 << EOD
1 0.430819 0.359334 0.578376
2 0.623433 0.512915 0.820193
4 0.89125 0.843911 0.928261
8 1.61162 1.55817 1.64957
16 3.91359 3.69995 4.02869
EOD
$d0 << EOD
1 0.403112 0.387215 0.436264
2 0.607237 0.514103 0.765661
4 0.893886 0.838267 0.970133
8 1.55726 1.51823 1.59132
16 3.65313 3.52243 3.80796
EOD
$a1 << EOD
1 0.363795 0.338419 0.401625
2 0.956258 0.868239 1.15562
4 1.64422 1.50859 1.7372
8 3.72359 3.49658 3.97351
16 7.2251 6.97588 7.58112
EOD
$b1 << EOD
1 0.721449 0.669557 0.76783
2 1.54887 1.43609 1.65694
4 3.04208 2.78628 3.39889
8 5.48179 5.16875 6.04578
16 10.766 10.3586 10.9859
EOD
$c1 << EOD
1 0.340526 0.315556 0.354478
2 0.500704 0.460865 0.538318
4 0.552892 0.529988 0.595338
8 0.717323 0.685807 0.736514
16 1.31302 1.1839 1.59367
EOD
$d1 << EOD
1 0.341909 0.291418 0.388413
2 0.493175 0.457814 0.535256
4 0.575951 0.538984 0.60279
8 0.693589 0.683774 0.708012
16 1.19051 1.09276 1.25369
EOD
set terminal svg size 1040,330 enhanced font 'Helvetica,12' background rgb 'white'
set output 'completion.svg'
set multiplot layout 1,2
unset key
set border 3 lc rgb '#555555'
set tics nomirror out
set grid y lc rgb '#e6e6e6' lt 1
set logscale x 2
set rmargin 18
set lmargin 11
set tmargin 2.5
set xlabel 'users at once' offset 0,0.4
set ylabel 'seconds to a whole answer (p95)' offset 0.5,0
set xtics (1, 2, 4, 8, 16)
unset label
set label "short questions, nothing shared" at graph 0, graph 1.07 left font ',13'
set logscale y
set yrange [0.261947:8.58036]
set xrange [0.869565:18.4]
set label 'A  one at a time' at graph 1.02, graph 0.9163 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.8413 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.7663 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.6913 left tc rgb '#1f4e9c' font ',12'
set ytics ("0.5" 0.5, "1" 1, "2" 2, "5" 5)
plot $a0 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a0 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b0 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b0 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c0 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c0 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d0 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d0 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "chats of eight turns behind one system prompt" at graph 0, graph 1.07 left font ',13'
set logscale y
set yrange [0.224168:14.2816]
set xrange [0.869565:18.4]
set label 'A  one at a time' at graph 1.02, graph 0.8360 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.9320 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.4512 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.3762 left tc rgb '#1f4e9c' font ',12'
set ytics ("0.5" 0.5, "1" 1, "2" 2, "5" 5, "10" 10)
plot $a1 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a1 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b1 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b1 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c1 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c1 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d1 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d1 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset multiplot
set output
reset
$tax << EOD
0.4923 0 -2.2510 3.1782 "B to A: blocks"
-2.2202 1 -4.6168 0.2044 "C to B: disorder"
0.4018 2 -2.2658 3.0558 "D to B: scheduler"
1.7357 3 -1.1253 5.2084 "A to A again: noise"
EOD
set terminal svg size 760,230 enhanced font 'Helvetica,12' background rgb 'white'
set output 'tax.svg'
unset key
set border 1 lc rgb '#555555'
set tics nomirror out
set ytics scale 0
set yrange [3.6:-0.6]
set xrange [-5.729:5.729]
set lmargin 20
set grid x lc rgb '#eeeeee' lt 1
set xlabel 'more time for a token than the other, % (one user; 95 % interval)'
set arrow from 0,graph 0 to 0,graph 1 nohead lc rgb '#555555'
set arrow from 2,graph 0 to 2,graph 1 nohead dt 2 lc rgb '#c0392b'
set label 'wanted: at most 2 %' at 2,graph 1.06 center tc rgb '#c0392b' font ',11'
plot $tax using 1:2:3:4:ytic(5) with xerrorbars pt 7 ps 0.7 lw 1.6 lc rgb '#1f4e9c'
set output
