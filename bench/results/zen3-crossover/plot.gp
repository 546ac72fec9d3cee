# gnuplot plot.gp draws the pictures of report.md
set encoding utf8
reset
$a0 << EOD
1 109.543 99.7672 120.276
2 109.153 101.243 116.928
3 104.791 91.6547 119.81
4 107.808 102.893 116.608
6 113.923 109.256 118.789
8 106.594 94.2361 120.572
12 110.424 106.337 116.085
16 107.555 101.977 115.617
24 103.87 95.2704 113.245
32 108.598 103.738 114.958
EOD
$b0 << EOD
1 110.775 103.245 116.89
2 152.983 142.382 168.975
3 162.465 153.475 177.09
4 171.301 157.919 185.817
6 197.209 189.024 208.544
8 202.169 188.799 219.113
12 234.934 218.274 257.815
16 221.867 198.097 249.354
24 226.938 213.911 240.759
32 222.97 209.657 236.058
EOD
$c0 << EOD
1 110.375 95.3858 119.604
2 167.092 159.883 172.58
3 159.482 149.787 170.052
4 170.685 159.266 182.924
6 190.274 183.638 199.299
8 195 187.657 204.462
12 222.269 212.73 232.235
16 225.611 212.059 245.637
24 231.017 213.167 250.361
32 235.053 217.961 253.484
EOD
$d0 << EOD
1 118.472 113.233 121.552
2 163.656 148.162 175.711
3 150.172 138.56 175.089
4 184.297 158.447 214.364
6 194.393 183.388 206.059
8 205.149 188.382 228.048
12 233.756 213.224 261.396
16 230.928 200.589 261.294
24 234.407 223.01 242.986
32 231.276 210.918 246.376
EOD
$a1 << EOD
1 92.746 88.2744 98.9223
2 39.4329 35.4947 42.3108
3 41.1712 37.1496 45.6281
4 35.8745 33.0407 39.7607
6 40.2724 36.5687 44.3512
8 40.818 35.2698 45.2865
12 38.627 36.4266 41.3915
16 39.1898 37.2733 41.7874
24 41.6964 39.9869 43.8296
32 41.2766 39.8882 42.7726
EOD
$b1 << EOD
1 28.237 26.9639 29.4078
2 32.2169 30.6889 33.821
3 30.8086 28.3911 33.7924
4 31.8029 28.9478 34.5599
6 33.6485 30.6011 38.6391
8 33.2448 31.5143 36.6243
12 32.7827 31.878 33.4183
16 32.7197 31.2919 33.641
24 32.7795 31.9016 34.2923
32 32.9478 31.9702 33.6637
EOD
$c1 << EOD
1 93.0549 89.1228 97.3076
2 122.493 109.427 138.131
3 144.634 136.439 150.232
4 167.611 152.8 181.882
6 159.919 141.428 180.827
8 167.099 141.924 189.409
12 180.623 172.356 189.082
16 205.569 183.02 223.86
24 191.826 176.83 204.78
32 194.822 185.677 205.532
EOD
$d1 << EOD
1 92.7099 88.7538 96.8424
2 117.594 107.553 126.502
3 152.477 130.685 171.989
4 151.119 130.372 175.168
6 159.151 124.007 191.015
8 166.215 128.923 210.851
12 169.658 154.337 184.959
16 184.813 177.316 194.572
24 195.15 191.928 198.568
32 189.557 177.094 202.899
EOD
$a2 << EOD
1 98.8846 84.6966 109.545
2 93.2671 87.8338 96.9503
3 98.1104 89.6065 107.421
4 95.7164 93.6337 99.3391
6 96.5066 83.6587 112.269
8 94.7686 91.1498 99.5106
12 108.069 98.9889 122.519
16 103.555 94.4499 109.758
24 109.429 102.269 117.091
32 109.625 103.477 116.139
EOD
$b2 << EOD
1 26.5202 25.676 27.3923
2 27.9075 26.9279 29.0096
3 29.8502 28.6904 31.3576
4 29.2213 28.6644 29.789
6 30.107 27.9795 32.3963
8 29.1017 28.4014 29.9791
12 29.7004 28.4275 31.0303
16 29.3223 28.8702 30.0101
24 29.9509 28.9341 31.0151
32 30.1327 29.6057 30.5799
EOD
$c2 << EOD
1 91.9525 84.8671 99.6293
2 127.001 114.434 138.778
3 153.132 138.523 163.635
4 143.582 133.317 158.267
6 178.563 157.99 210.405
8 188.305 172.412 205.662
12 200.198 187.483 212.093
16 234.799 213.784 260.869
24 255.51 247.078 264.229
32 279.87 273.679 287.601
EOD
$d2 << EOD
1 95.809 90.4635 102.111
2 125.764 113.674 139.138
3 141.33 127.29 155.064
4 158.377 146.628 171.864
6 160.84 141.504 189.471
8 189.908 180.975 199.282
12 201.601 184.55 211.867
16 227.203 217.544 237.291
24 258.017 253.221 261.505
32 259.265 250.368 272.795
EOD
$a3 << EOD
1 93.7363 89.3084 99.0554
2 85.869 82.6627 90.6133
3 92.7258 87.0339 98.7882
4 89.995 89.0369 91.1342
6 91.6888 87.1341 95.7222
8 79.384 62.9203 99.102
12 74.065 54.1407 89.5321
16 88.159 84.3959 91.9303
24 88.2729 83.1903 93.7624
32 87.8512 85.6043 89.2647
EOD
$b3 << EOD
1 91.2882 89.4697 93.1437
2 111.481 104.87 117.16
3 128.415 114.381 141.149
4 120.354 111.65 133.797
6 126.283 110.045 139.02
8 128.724 102.226 146.209
12 125.543 107.053 137.514
16 159.541 155.623 164.022
24 152.162 149.5 154.713
32 153.538 149.526 157.899
EOD
$c3 << EOD
1 92.5593 86.8758 98.3234
2 107.788 98.7875 117.246
3 115.786 106.109 126.345
4 125.495 116.599 137.685
6 121.491 101.72 137.76
8 129.04 105.144 149.215
12 124.676 89.0747 154.601
16 154.44 150.544 159.812
24 149.253 141.103 155.242
32 152.798 150.867 154.753
EOD
$d3 << EOD
1 92.8504 88.6682 97.2299
2 109.725 99.9681 120.434
3 116.362 108.013 125.834
4 134.589 120.981 152.313
6 116.845 81.7533 142.448
8 128.254 110.004 142.623
12 133.907 100.197 161.148
16 144.571 113.459 167.936
24 160.592 157.402 163.846
32 152.573 145.583 161.04
EOD
set terminal svg size 1040,660 enhanced font 'Helvetica,12' background rgb 'white'
set output 'throughput.svg'
set multiplot layout 2,2
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
set xtics (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
unset label
set label "short questions, nothing shared" at graph 0, graph 1.07 left font ',13'
unset logscale y
set yrange [0:287.536]
set xrange [0.869565:36.8]
set label 'A  one at a time' at graph 1.02, graph 0.3777 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.7241 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.8741 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.7991 left tc rgb '#1f4e9c' font ',12'
plot $a0 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a0 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b0 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b0 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c0 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c0 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d0 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d0 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "chats of eight turns behind one system prompt" at graph 0, graph 1.07 left font ',13'
unset logscale y
set yrange [0:246.246]
set xrange [0.869565:36.8]
set label 'A  one at a time' at graph 1.02, graph 0.1882 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.1132 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.8180 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.7430 left tc rgb '#1f4e9c' font ',12'
plot $a1 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a1 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b1 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b1 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c1 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c1 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d1 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d1 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "questions about one document" at graph 0, graph 1.07 left font ',13'
unset logscale y
set yrange [0:316.361]
set xrange [0.869565:36.8]
set label 'A  one at a time' at graph 1.02, graph 0.3465 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.0952 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.8896 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.8146 left tc rgb '#1f4e9c' font ',12'
plot $a2 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a2 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b2 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b2 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c2 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c2 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d2 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d2 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "one long prompt amid four chats" at graph 0, graph 1.07 left font ',13'
unset logscale y
set yrange [0:184.729]
set xrange [0.869565:36.8]
set label 'A  one at a time' at graph 1.02, graph 0.4756 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.9031 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.8281 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.7531 left tc rgb '#1f4e9c' font ',12'
plot $a3 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a3 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b3 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b3 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c3 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c3 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d3 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d3 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset multiplot
set output
reset
$a0 << EOD
1 0.156689 0.141272 0.176845
2 0.297307 0.273186 0.33208
3 0.45436 0.394434 0.523392
4 0.567526 0.527041 0.589871
6 0.82032 0.777798 0.865167
8 1.19161 1.02027 1.39173
12 1.66797 1.56134 1.74157
16 2.32245 2.17224 2.46355
24 3.57811 3.263 3.92365
32 4.65263 4.3427 4.95174
EOD
$b0 << EOD
1 0.14933 0.139085 0.166071
2 0.212 0.188624 0.236986
3 0.277713 0.247086 0.30406
4 0.360387 0.334574 0.388191
6 0.613364 0.582718 0.633218
8 0.770923 0.683997 0.861882
12 1.05004 0.93559 1.13984
16 1.4969 1.33628 1.67681
24 2.43983 2.29726 2.59125
32 3.42418 3.21816 3.64195
EOD
$c0 << EOD
1 0.148508 0.136366 0.169782
2 0.188323 0.184775 0.191938
3 0.283481 0.264245 0.303881
4 0.36157 0.337339 0.38754
6 0.622876 0.600074 0.646545
8 0.764647 0.717372 0.800881
12 1.09648 1.06918 1.1235
16 1.53234 1.41105 1.63176
24 2.40481 2.22637 2.59756
32 3.22439 3.00635 3.45825
EOD
$d0 << EOD
1 0.138612 0.131393 0.146227
2 0.2009 0.180078 0.224131
3 0.292516 0.254714 0.319458
4 0.342891 0.292063 0.404905
6 0.618171 0.589317 0.648438
8 0.757661 0.680966 0.831594
12 1.01094 0.866913 1.13031
16 1.51597 1.35025 1.72344
24 2.35546 2.26296 2.49278
32 3.33973 3.11913 3.66595
EOD
$a1 << EOD
1 0.0779466 0.0728473 0.0833328
2 0.327359 0.306627 0.358898
3 0.44979 0.422241 0.472681
4 0.757421 0.656721 0.929006
6 0.903692 0.834292 0.978865
8 1.18602 1.08587 1.29542
12 1.80133 1.74575 1.86138
16 2.53376 2.3345 2.67583
24 3.65714 3.46372 3.86136
32 4.75538 4.41781 5.09769
EOD
$b1 << EOD
1 0.228558 0.219048 0.244704
2 0.368979 0.347558 0.39172
3 0.532691 0.485866 0.576962
4 0.682925 0.642775 0.737896
6 1.0954 0.986668 1.21938
8 1.42244 1.34723 1.51719
12 2.1076 2.06023 2.15605
16 2.76856 2.66391 2.91381
24 4.38436 4.11601 4.67021
32 5.83565 5.52862 6.13237
EOD
$c1 << EOD
1 0.0805518 0.0771535 0.0838093
2 0.110397 0.102432 0.119137
3 0.132866 0.122939 0.145045
4 0.131927 0.125391 0.138803
6 0.200247 0.167859 0.242487
8 0.235082 0.197813 0.296645
12 0.302788 0.293931 0.310765
16 0.344391 0.322642 0.379579
24 0.646042 0.565304 0.742869
32 0.818967 0.78013 0.85914
EOD
$d1 << EOD
1 0.073238 0.0691609 0.0763973
2 0.113735 0.0981697 0.127909
3 0.131359 0.123544 0.138499
4 0.14302 0.119394 0.171321
6 0.199277 0.15907 0.258333
8 0.226716 0.171834 0.286584
12 0.335319 0.289965 0.403798
16 0.396626 0.368669 0.419741
24 0.658589 0.609355 0.70997
32 0.794688 0.766629 0.835179
EOD
$a2 << EOD
1 0.43198 0.377681 0.494086
2 0.518618 0.476318 0.564675
3 0.574591 0.50967 0.64778
4 0.685587 0.622893 0.751042
6 0.902431 0.739541 1.1012
8 1.09579 1.03542 1.14475
12 1.30253 1.13441 1.42844
16 1.77221 1.69968 1.90599
24 2.45796 2.36855 2.53862
32 3.28681 3.03061 3.5776
EOD
$b2 << EOD
1 0.486327 0.468962 0.504335
2 1.05487 0.986914 1.10616
3 1.79995 1.66862 1.94161
4 2.49502 2.43294 2.55716
6 3.73229 3.41781 4.02834
8 4.78046 4.64085 4.9467
12 5.77375 5.56574 6.04797
16 7.47892 6.9908 7.85036
24 9.84442 9.45724 10.1285
32 12.314 11.9888 12.648
EOD
$c2 << EOD
1 0.457966 0.429194 0.493777
2 0.470833 0.435988 0.519076
3 0.468314 0.454743 0.48819
4 0.553485 0.509907 0.600787
6 0.55234 0.472961 0.608163
8 0.624238 0.544601 0.686734
12 0.83643 0.79139 0.8926
16 1.06261 0.959614 1.16019
24 1.34137 1.31729 1.37305
32 1.7539 1.67572 1.82803
EOD
$d2 << EOD
1 0.434279 0.406675 0.463756
2 0.469325 0.422668 0.517062
3 0.494187 0.425204 0.562176
4 0.521873 0.464328 0.586384
6 0.616093 0.539367 0.689323
8 0.613899 0.581828 0.647737
12 0.816037 0.781449 0.874584
16 1.08738 1.048 1.12394
24 1.35495 1.34238 1.36679
32 1.98357 1.89319 2.05754
EOD
$a3 << EOD
1 0.247303 0.210144 0.28477
2 0.431911 0.408406 0.453943
3 0.495176 0.475326 0.532246
4 0.620651 0.603296 0.634965
6 0.948992 0.903202 1.00335
8 1.44931 1.15818 1.8358
12 2.23254 1.81732 3.02535
16 2.55452 2.35445 2.89075
24 3.69943 3.46575 4.03722
32 4.81942 4.71078 5.00027
EOD
$b3 << EOD
1 0.264452 0.245409 0.288283
2 0.403983 0.38082 0.428554
3 0.41955 0.392652 0.464335
4 0.542144 0.476069 0.597243
6 0.89541 0.838709 0.963584
8 1.16115 0.991716 1.47891
12 1.82138 1.69702 2.06369
16 2.19438 2.15766 2.24056
24 3.4362 3.40832 3.45269
32 4.90541 4.76793 5.00242
EOD
$c3 << EOD
1 0.255125 0.238622 0.27277
2 0.414696 0.387672 0.454473
3 0.444575 0.410404 0.48159
4 0.536341 0.474408 0.591346
6 0.971468 0.862721 1.16554
8 1.11505 0.93458 1.39401
12 1.88672 1.55731 2.56572
16 2.22823 2.14005 2.30499
24 3.53964 3.42619 3.69395
32 4.9392 4.85905 5.02795
EOD
$d3 << EOD
1 0.257164 0.237537 0.272497
2 0.409103 0.357195 0.468553
3 0.445751 0.419113 0.475112
4 0.495157 0.436345 0.554421
6 0.986632 0.835491 1.3453
8 1.17701 1.06916 1.36092
12 1.73868 1.44695 2.27949
16 2.38468 2.05055 3.03358
24 3.26699 3.19802 3.33744
32 4.96651 4.70346 5.23559
EOD
set terminal svg size 1040,660 enhanced font 'Helvetica,12' background rgb 'white'
set output 'completion.svg'
set multiplot layout 2,2
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
set xtics (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
unset label
set label "short questions, nothing shared" at graph 0, graph 1.07 left font ',13'
set logscale y
set yrange [0.101072:6.43726]
set xrange [0.869565:36.8]
set label 'A  one at a time' at graph 1.02, graph 0.9739 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.8989 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.7489 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.8239 left tc rgb '#1f4e9c' font ',12'
set ytics ("0.2" 0.2, "0.5" 0.5, "1" 1, "2" 2, "5" 5)
plot $a0 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a0 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b0 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b0 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c0 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c0 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d0 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d0 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "chats of eight turns behind one system prompt" at graph 0, graph 1.07 left font ',13'
set logscale y
set yrange [0.0532007:7.97207]
set xrange [0.869565:36.8]
set label 'A  one at a time' at graph 1.02, graph 0.8798 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.9548 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.5802 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.5052 left tc rgb '#1f4e9c' font ',12'
set ytics ("0.1" 0.1, "0.2" 0.2, "0.5" 0.5, "1" 1, "2" 2, "5" 5)
plot $a1 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a1 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b1 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b1 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c1 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c1 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d1 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d1 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "questions about one document" at graph 0, graph 1.07 left font ',13'
set logscale y
set yrange [0.290524:16.4424]
set xrange [0.869565:36.8]
set label 'A  one at a time' at graph 1.02, graph 0.6011 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.9284 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.4232 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 0.4982 left tc rgb '#1f4e9c' font ',12'
set ytics ("0.5" 0.5, "1" 1, "2" 2, "5" 5, "10" 10)
plot $a2 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a2 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b2 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b2 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c2 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c2 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d2 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d2 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset label
set label "one long prompt amid four chats" at graph 0, graph 1.07 left font ',13'
set logscale y
set yrange [0.161649:6.80626]
set xrange [0.869565:36.8]
set label 'A  one at a time' at graph 1.02, graph 0.8000 left tc rgb '#777777' font ',12'
set label 'E  batching' at graph 1.02, graph 0.8750 left tc rgb '#d9822b' font ',12'
set label 'F  prefix cache' at graph 1.02, graph 0.9500 left tc rgb '#2f9e8f' font ',12'
set label 'G  shared reads' at graph 1.02, graph 1.0250 left tc rgb '#1f4e9c' font ',12'
set ytics ("0.2" 0.2, "0.5" 0.5, "1" 1, "2" 2, "5" 5)
plot $a3 using ($1*0.970):2 with lines lw 2 lc rgb '#777777', $a3 using ($1*0.970):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#777777', \
     $b3 using ($1*0.990):2 with lines lw 2 lc rgb '#d9822b', $b3 using ($1*0.990):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#d9822b', \
     $c3 using ($1*1.010):2 with lines lw 2 lc rgb '#2f9e8f', $c3 using ($1*1.010):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#2f9e8f', \
     $d3 using ($1*1.030):2 with lines lw 2 lc rgb '#1f4e9c', $d3 using ($1*1.030):2:3:4 with yerrorbars pt 7 ps 0.5 lw 1.2 lc rgb '#1f4e9c'
unset multiplot
set output
reset
$tax << EOD
-0.8183 0 -2.8475 1.0796 "B to A: blocks"
-0.5953 1 -2.2127 1.0984 "C to B: disorder"
0.1204 2 -1.6487 2.1448 "D to B: scheduler"
1.0699 3 -4.7664 7.5411 "A to A again: noise"
EOD
set terminal svg size 760,230 enhanced font 'Helvetica,12' background rgb 'white'
set output 'tax.svg'
unset key
set border 1 lc rgb '#555555'
set tics nomirror out
set ytics scale 0
set yrange [3.6:-0.6]
set xrange [-8.295:8.295]
set lmargin 20
set grid x lc rgb '#eeeeee' lt 1
set xlabel 'more time for a token than the other, % (one user; 95 % interval)'
set arrow from 0,graph 0 to 0,graph 1 nohead lc rgb '#555555'
set arrow from 2,graph 0 to 2,graph 1 nohead dt 2 lc rgb '#c0392b'
set label 'wanted: at most 2 %' at 2,graph 1.06 center tc rgb '#c0392b' font ',11'
plot $tax using 1:2:3:4:ytic(5) with xerrorbars pt 7 ps 0.7 lw 1.6 lc rgb '#1f4e9c'
set output
