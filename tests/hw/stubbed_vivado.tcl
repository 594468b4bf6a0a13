# A Vivado for tests, run by tclsh: `tclsh stubbed_vivado.tcl build.tcl`. It lays out its folders as
# Vivado does, by the arguments of create_project, create_bd_design and launch_runs, and refuses what
# Vivado refuses:
#
#     create_project NAME DIR     DIR/NAME.xpr
#     launch_runs RUN             DIR/NAME.runs/RUN; DIR/NAME.runs/impl_1/TOP.bit by write_bitstream
#     create_bd_design BD         DIR/NAME.srcs/sources_1/bd/BD/BD.bd; when its outputs are made
#                                 DIR/NAME.gen/sources_1/bd/BD/hw_handoff/BD.hwh (before 2020.2:
#                                 DIR/NAME.srcs/...), and a run of its own for the block design
#     reset_run synth_1           resets impl_1, too
#     launch_runs                 refuses a run that began and is not reset, unless only later steps
#                                 are missing
#     set_property strategy       refuses one that it does not know
#
# Any other command is recorded alone. Environment: STUB_CALLS, file of the calls, one a line, words in
# base64; STUB_ANSWERS, Tcl with what commands return; STUB_VERSION; STUB_BREAK and STUB_FAIL, a step
# (such as impl_1:place_design) in which the program is killed, or which ends in an error; STUB_FILES, a
# folder with the contents of what is made: x.bit, x.hwh, timing.rpt, utilization.rpt.

set stub_project ""
set stub_design ""
set stub_answers {}
set stub_launched {}
set stub_strategies {"Vivado Implementation Defaults" Performance_Explore \
    Performance_ExplorePostRoutePhysOpt}
array set stub_steps {synth_1 synth_design impl_1 {init_design place_design route_design \
    write_bitstream}}

proc setting {name default} {
    if {[info exists ::env(STUB_$name)] && $::env(STUB_$name) ne ""} {
        return $::env(STUB_$name)
    }
    return $default
}

if {[setting ANSWERS ""] ne ""} { source [setting ANSWERS ""] }

proc record {words} {
    set file [open [setting CALLS /dev/null] a]
    set coded {}
    foreach word $words {
        # An empty word has a letter that base64 has not.
        lappend coded [expr {$word eq "" ? "-" : [binary encode base64 -maxlen 0 \
            [encoding convertto utf-8 $word]]}]
    }
    puts $file [join $coded]
    close $file
}

proc answer {words variable} {
    upvar $variable found
    foreach {start value} $::stub_answers {
        if {[list {*}[lrange $words 0 [llength $start]-1]] eq [list {*}$start]} {
            set found $value
            return 1
        }
    }
    return 0
}

# A command of Vivado's: recorded, and answered by a test before all else.
proc command {name body} {
    proc $name args "record \[list $name {*}\$args]
        if {\[answer \[list $name {*}\$args] stub_found]} { return \$stub_found }
        $body"
}

proc unknown {args} {
    record $args
    if {[answer $args found]} { return $found }
    set name [lindex $args 0]
    if {[regexp {^(get_bd_|ipx::get_|ipx::add_)} $name]} {
        # The object goes by its name, so that later calls show what they are about.
        foreach word [lrange $args 1 end] {
            if {![string match -* $word]} { return $word }
        }
    }
    return $name
}

proc refuse {message} { error "ERROR: \[Common 17-69] Command failed: $message" }

# The words that are no options, and the values of options that have one.
proc parse {words valued} {
    array set ::options {}
    array unset ::options
    set plain {}
    for {set i 0} {$i < [llength $words]} {incr i} {
        set word [lindex $words $i]
        if {$word in $valued} {
            set ::options($word) [lindex $words [incr i]]
        } elseif {[string match -* $word]} {
            set ::options($word) 1
        } else {
            lappend plain $word
        }
    }
    return $plain
}

proc put {path text} {
    file mkdir [file dirname $path]
    set file [open $path wb]
    puts -nonewline $file $text
    close $file
}

proc get {path} {
    set file [open $path rb]
    set text [read $file]
    close $file
    return $text
}

# What a test wants in a file that Vivado makes.
proc content {name default} {
    set path [file join [setting FILES /nowhere] $name]
    return [expr {[file exists $path] ? [get $path] : $default}]
}

proc need_project {} {
    if {$::stub_project eq ""} { refuse "No open project" }
}


# Of the folder that outputs of a block design are in.
proc outputs {} {
    lassign [split [setting VERSION 2022.1] .] year number
    return [expr {10 * $year + $number < 20202 ? "srcs" : "gen"}]
}

proc below {suffix args} { return [file join [file rootname $::stub_project].$suffix {*}$args] }

proc block_designs {} {
    set found {}
    foreach path [glob -nocomplain [below srcs sources_1 bd * *.bd]] {
        lappend found [file rootname [file tail $path]]
    }
    return $found
}

proc run_names {} {
    set names {synth_1 impl_1}
    foreach design [block_designs] {
        if {[file exists [below runs ${design}_synth_1]]} { lappend names ${design}_synth_1 }
    }
    return $names
}

# Steps that a run has ended, and whether one of them broke off: {steps broken}.
proc state {run} {
    set path [below runs $run state]
    return [expr {[file exists $path] ? [get $path] : {0 0}}]
}

proc steps {run} {
    return [expr {[info exists ::stub_steps($run)] ? $::stub_steps($run) : "synth_design"}]
}

# The last step that is asked for by default is the one before the bitstream.
proc wanted_steps {run to_step} {
    set steps [steps $run]
    if {$to_step ne ""} { return [expr {[lsearch -exact $steps $to_step] + 1}] }
    return [expr {$run eq "impl_1" ? 3 : [llength $steps]}]
}

proc carry_out {run wanted} {
    lassign [state $run] ended broken
    if {$broken || $ended >= $wanted} {
        refuse "Run '$run' needs to be reset before launching. The run can be reset using the Tcl\
            command 'reset_run $run'."
    }
    foreach step [lrange [steps $run] $ended [expr {$wanted - 1}]] {
        record [list step $run $step]
        put [below runs $run state] "$ended 1"
        if {[setting BREAK ""] eq "$run:$step"} { exit 137 }
        if {[setting FAIL ""] eq "$run:$step"} { return 0 }
        incr ended
        if {$step eq "write_bitstream"} {
            set top [get [below srcs top]]
            put [below runs $run $top.bit] [content x.bit "bits of $top"]
        }
        put [below runs $run state] "$ended 0"
    }
    return 1
}

command version { return [setting VERSION 2022.1] }

command create_project {
    lassign [parse $args {-part}] name folder
    set ::stub_project [file join $folder $name.xpr]
    if {[file exists $::stub_project] && ![info exists ::options(-force)]} {
        refuse "Project already exists, use -force: $::stub_project"
    }
    foreach suffix {xpr runs gen srcs cache} {
        file delete -force [below $suffix]
    }
    put $::stub_project "project $name"
}

command open_project {
    set path [lindex [parse $args {}] 0]
    if {![file exists $path]} { refuse "Could not find the file '$path'" }
    set ::stub_project $path
    set ::stub_launched {}
}

command close_project {
    need_project
    set ::stub_project ""
}

command create_bd_design {
    need_project
    set name [lindex [parse $args {}] 0]
    put [below srcs sources_1 bd $name $name.bd] design
    return $name
}

command get_files {
    need_project
    set pattern [lindex [parse $args {}] 0]
    return [glob -nocomplain [below srcs sources_1 bd * $pattern]]
}

command make_wrapper {
    parse $args {-files}
    set path [lindex $::options(-files) 0]
    if {![file exists $path]} { refuse "There is no block design '$path'" }
    set name [file rootname [file tail $path]]
    set wrapper [below [outputs] sources_1 bd $name hdl ${name}_wrapper.v]
    put $wrapper module
    return $wrapper
}

command add_files {
    foreach path [join [parse $args {}]] {
        if {![file exists $path]} { refuse "File or Directory '$path' does not exist" }
    }
}

command set_property {
    lassign [parse $args {}] name value object
    if {$name eq "top"} { put [below srcs top] $value }
    if {$name eq "strategy" && ($value ni $::stub_strategies || $object ni [run_names])} {
        refuse "'$value' is no strategy of '$object'"
    }
}

command get_runs {
    need_project
    set pattern [lindex [parse $args {}] 0]
    set found [run_names]
    if {$pattern eq ""} { return $found }
    return [lsearch -all -inline $found $pattern]
}

command launch_runs {
    need_project
    lassign [parse $args {-to_step -jobs}] run
    set to_step [expr {[info exists ::options(-to_step)] ? $::options(-to_step) : ""}]
    lappend ::stub_launched $run
    foreach design [block_designs] {
        set path [below [outputs] sources_1 bd $design hw_handoff $design.hwh]
        put $path [content x.hwh "handoff of $design"]
        set inner ${design}_synth_1
        if {[lindex [state $inner] 0] == 0 && ![carry_out $inner 1]} { return }
    }
    if {$run eq "impl_1" && [lindex [state synth_1] 0] == 0 && ![carry_out synth_1 1]} { return }
    carry_out $run [wanted_steps $run $to_step]
    return
}

command wait_on_run {
    if {[lindex $args 0] ni $::stub_launched} { refuse "Run [lindex $args 0] was not launched" }
}

command reset_run {
    set run [lindex $args 0]
    if {$run ni [run_names]} { refuse "There is no run '$run'" }
    file delete -force [below runs $run]
    if {$run eq "synth_1"} { file delete -force [below runs impl_1] }
}

command open_run {
    set run [lindex $args 0]
    if {[lindex [state $run] 0] < 3} { refuse "Run '$run' has not been implemented" }
    set ::stub_design $run
}

proc report {words name} {
    parse $words {-file}
    if {$::stub_design eq ""} { refuse "No open design" }
    put $::options(-file) [content $name "$name of $::stub_design"]
}

command report_timing_summary { report $args timing.rpt }
command report_utilization { report $args utilization.rpt }

command get_property {
    lassign $args name object
    need_project
    if {$object ni [run_names]} { return $name }
    lassign [state $object] ended broken
    set steps [steps $object]
    switch $name {
        DIRECTORY { return [below runs $object] }
        PROGRESS {
            # Routed is as far as an implementation is asked to go by default.
            return [expr {!$broken && $ended >= min(3, [llength $steps]) ? "100%"
                : $ended ? "[expr {100 * $ended / 4}]%" : "0%"}]
        }
        STATUS {
            if {$broken} { return "[lindex $steps $ended] ERROR" }
            return [expr {$ended ? "[lindex $steps [expr {$ended - 1}]] Complete!" : "Not started"}]
        }
    }
    return $name
}

cd [file dirname [file normalize [lindex $argv 0]]]
source [file normalize [lindex $argv 0]]
