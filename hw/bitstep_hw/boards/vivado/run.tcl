# Takes the project that build.tcl makes to its bitstream, reports and hardware handoff. What ended
# before is not done again: a project of the same sources is opened, and only the runs that it lacks
# are launched. Sourced by build.tcl; no part of the sources' checksum, for it decides no bitstream.

set project [file join $here project]
set result [file join $here result.txt]
# What the project is made of; beside it once it is complete.
set made [file join $here made.txt]
set origin "vivado [version -short]\nsources $sources_digest\n"

proc read_text {path} {
    if {![file exists $path]} {
        return ""
    }
    set file [open $path]
    set text [read $file]
    close $file
    return $text
}

# Whole or not at all.
proc write_text {path text} {
    set file [open $path.part w]
    puts -nonewline $file $text
    close $file
    file rename -force $path.part $path
}

proc find_file {folder pattern} {
    foreach path [glob -nocomplain -directory $folder -types f $pattern] {
        return $path
    }
    foreach inner [glob -nocomplain -directory $folder -types d *] {
        set path [find_file $inner $pattern]
        if {$path ne ""} {
            return $path
        }
    }
    return ""
}

proc copy_result {source target} {
    if {$source eq ""} {
        error "Vivado ended without a file for $target: see vivado.log"
    }
    file copy -force $source $target
}

proc progress {run} { return [get_property PROGRESS [get_runs $run]] }

# Vivado says where a run's files are.
proc find_bitstream {} {
    return [find_file [get_property DIRECTORY [get_runs impl_1]] *.bit]
}

proc launch {} {
    global jobs
    launch_runs impl_1 -to_step write_bitstream -jobs $jobs
    wait_on_run impl_1
}

# A run that broke off or failed cannot be launched before it is reset; those that ended stay. If
# Vivado does not go on from them, the implementation begins again, and then the synthesis.
proc launch_again {} {
    puts "INFO: impl_1 is [progress impl_1] done: launching what it lacks"
    foreach run [get_runs] {
        if {[progress $run] ne "100%"} {
            reset_run $run
        }
    }
    foreach runs {{} impl_1 {synth_1 impl_1}} {
        foreach run $runs {
            reset_run $run
        }
        if {![catch {launch} message]} {
            return
        }
        puts "WARNING: the runs were not launched: $message"
    }
    error $message
}

if {[read_text $made] eq $origin && [file exists [file join $project bitstep.xpr]]} {
    puts "INFO: opening $project, which is of these sources (delete the folder to build it anew)"
    open_project [file join $project bitstep.xpr]
    if {[progress impl_1] ne "100%" || [find_bitstream] eq ""} {
        launch_again
    }
} else {
    # Of other sources, or of a build that ended before the project was complete.
    file delete -force $made $result
    make_project $project
    write_text $made $origin
    launch
}
if {[progress impl_1] ne "100%"} {
    error "The implementation ended as [get_property STATUS [get_runs impl_1]]: see vivado.log"
}
open_run impl_1
report_timing_summary -file [file join $here timing.rpt]
report_utilization -file [file join $here utilization.rpt]
copy_result [find_bitstream] [file join $here bitstep.bit]
copy_result [find_file $project bitstep.hwh] [file join $here bitstep.hwh]
# Last, so that who finds it finds all the others.
write_text $result $origin
