// For prebuilt addons: libstdc++ asks this variable of glibc 2.32 whether locks can be left out. Older ones do not have
// it; ours says that they cannot.
extern "C" {
extern char __libc_single_threaded;
char __libc_single_threaded = 0;
}
