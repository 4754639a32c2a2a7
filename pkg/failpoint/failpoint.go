// Package failpoint lets a test kill a process at exactly one point between two writes, and check
// the invariants afterwards. The code calls Hit at each such point. Only a build with the tag
// `failpoint` contains failpoints; in any other build Hit is an empty function.
//
// URR_FAILPOINTS="name=action;name=action;…" arms them, once, at the first use. Actions:
//
//	exit        the process kills itself (SIGKILL): nothing is flushed, no defer runs
//	error       Hit panics, Err returns an error
//	sleep:5s    waits
//	hold:/file  creates the file and waits until somebody removes it
//
// skew:-5s    only for the failpoint `clock`: Now returns the time 5 s ago
//
// name@N=action acts only at the Nth hit in the process, counted from 1.
package failpoint
