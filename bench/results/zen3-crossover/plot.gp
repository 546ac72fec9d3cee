# gnuplot plot.gp draws the pictures of report.md
set encoding utf8
reset
$a0 << EOD
1 92.0962 88.0713 94.9051
2 89.8872 86.2842 96.8795
4 97.3637 87.2156 106.255
8 92.3615 86.3472 102.024
16 97.2408 87.4262 108.018
EOD
$b0 << EOD
1 91.6397 84.3846 100.479
2 124.845 117.003 131.778
4 154.927 151.661 159.938
8 198.303 188.311 211.167
16 217.734 207.579 223.145
EOD
$c0 << EOD
1 91.9553 77.2258 103.317
2 135.309 119.916 155.373
4 153.266 139.688 173.807
8 185.037 172.231 203.958
16 206.816 185.543 223.903
EOD
$d0 << EOD
1 86.6743 71.6512 103.715
2 132.607 127.453 137.813
4 159.881 155.793 164.889
8 194.572 193.863 195.272
16 218.809 199.037 242.134
EOD
$a1 << EOD
1 84.7903 77.6925 94.2921
2 33.6858 30.2903 37.8947
4 36.0006 33.1398 38.8734
8 35.3081 34.5884 36.1481
16 35.256 34.0814 35.9086
EOD
$b1 << EOD
1 26.6644 24.39 29.3649
2 27.6491 25.5079 29.4024
4 28.7222 28.364 29.3622
8 30.3952 29.4162 32.1254
16 29.021 28.0746 30.0398
EOD
$c1 << EOD
1 87.4736 70.5272 108.326
2 99.0175 86.8606 108.639
4 147.511 133.904 157.471
8 157.829 141.814 172.024
16 169.054 158.491 182.714
EOD
$d1 << EOD
1 79.0148 77.5111 79.957
2 99.7807 87.4924 118.947
4 138.555 131.524 149.897
8 157.561 150.396 167.525
16 158.876 146.863 172.237
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
set yrange [0:266.348]
set xrange [0.869565:18.4]
set label 'A  one at a time' at graph 1.02, graph 0.3651 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.8052 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.7302 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.8802 left tc rgb '#1f4e9c' font ',12'
plot $a0 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a0 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b0 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b0 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c0 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c0 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d0 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d0 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "chats of eight turns behind one system prompt" at graph 0, graph 1.07 left font ',13'
unset logscale y
set yrange [0:200.985]
set xrange [0.869565:18.4]
set label 'A  one at a time' at graph 1.02, graph 0.1974 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.1224 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.8533 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.7783 left tc rgb '#1f4e9c' font ',12'
plot $a1 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a1 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b1 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b1 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c1 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c1 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d1 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d1 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset multiplot
set output
reset
$a0 << EOD
1 0.22834 0.190298 0.290963
2 0.393819 0.360575 0.418479
4 0.739455 0.699102 0.821376
8 1.54299 1.35116 1.6513
16 2.90192 2.53401 3.22704
EOD
$b0 << EOD
1 0.209898 0.188842 0.246157
2 0.286147 0.270814 0.313889
4 0.572852 0.551521 0.593214
8 0.977843 0.952914 1.01883
16 1.67996 1.602 1.76354
EOD
$c0 << EOD
1 0.213325 0.189854 0.266277
2 0.258855 0.226454 0.288984
4 0.58974 0.506329 0.659224
8 1.06492 0.923433 1.16674
16 1.84934 1.65908 2.09446
EOD
$d0 << EOD
1 0.216115 0.179418 0.258392
2 0.260898 0.248745 0.269652
4 0.582048 0.566411 0.601903
8 1.00576 0.994321 1.02264
16 1.73052 1.57633 1.88912
EOD
$a1 << EOD
1 0.0782839 0.067156 0.101043
2 0.373735 0.329574 0.410925
4 0.726854 0.656764 0.769975
8 1.39158 1.30066 1.52246
16 2.88995 2.68485 3.02852
EOD
$b1 << EOD
1 0.224261 0.20623 0.251829
2 0.437956 0.429027 0.444008
4 0.839865 0.777641 0.889782
8 1.53138 1.3743 1.68484
16 3.24833 3.16927 3.39412
EOD
$c1 << EOD
1 0.0783603 0.063469 0.089714
2 0.15737 0.142157 0.177438
4 0.1531 0.134894 0.179737
8 0.250069 0.241644 0.256356
16 0.430748 0.386241 0.45905
EOD
$d1 << EOD
1 0.0823222 0.07398 0.090139
2 0.130888 0.115174 0.141495
4 0.159599 0.143498 0.176656
8 0.244056 0.22603 0.263144
16 0.479528 0.430221 0.548806
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
set yrange [0.138014:4.19515]
set xrange [0.869565:18.4]
set label 'A  one at a time' at graph 1.02, graph 0.8937 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.6687 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.8187 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.7437 left tc rgb '#1f4e9c' font ',12'
set ytics ("0.2" 0.2, "0.5" 0.5, "1" 1, "2" 2)
plot $a0 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a0 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b0 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b0 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c0 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c0 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d0 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d0 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "chats of eight turns behind one system prompt" at graph 0, graph 1.07 left font ',13'
set logscale y
set yrange [0.0488223:4.41235]
set xrange [0.869565:18.4]
set label 'A  one at a time' at graph 1.02, graph 0.8815 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.9565 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.4578 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.5328 left tc rgb '#1f4e9c' font ',12'
set ytics ("0.05" 0.05, "0.1" 0.1, "0.2" 0.2, "0.5" 0.5, "1" 1, "2" 2)
plot $a1 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a1 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b1 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b1 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c1 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c1 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d1 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d1 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset multiplot
set output
reset
$tax << EOD
-1.1105 0 -3.1912 0.8244 "B to A: blocks"
1.7531 1 -0.9191 5.3437 "C to B: disorder"
-0.9459 2 -2.6957 0.7827 "D to B: scheduler"
1.6816 3 -8.5608 13.2897 "A to A again: noise"
EOD
set terminal svg size 760,230 enhanced font 'Helvetica,12' background rgb 'white'
set output 'tax.svg'
unset key
set border 1 lc rgb '#555555'
set tics nomirror out
set ytics scale 0
set yrange [3.6:-0.6]
set xrange [-14.619:14.619]
set lmargin 20
set grid x lc rgb '#eeeeee' lt 1
set xlabel 'more time for a token than the other, % (one user; 95 % interval)'
set arrow from 0,graph 0 to 0,graph 1 nohead lc rgb '#555555'
set arrow from 2,graph 0 to 2,graph 1 nohead dt 2 lc rgb '#c0392b'
set label 'wanted: at most 2 %' at 2,graph 1.06 center tc rgb '#c0392b' font ',11'
plot $tax using 1:2:3:4:ytic(5) with xerrorbars pt 7 ps 0.7 lw 1.6 lc rgb '#1f4e9c'
set output
