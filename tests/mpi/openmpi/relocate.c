/* Linked into programs for an Open MPI that stands elsewhere than where it was built: says where its parts are,
 * unless the environment does. OPAL is the prefix of Open MPI, PMIX that of a separate PMIx. */
#include <stdlib.h>

__attribute__((constructor)) static void relocate(void)
{
    setenv("OPAL_PREFIX", OPAL, 0);
#ifdef PMIX
    setenv("PMIX_PREFIX", PMIX, 0);
#endif
}
