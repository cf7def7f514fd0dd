/* Two separately started programs of one rank join over a socket. "listen FILE" listens on the loopback address
 * and writes its port to FILE; "connect FILE" reads it when FILE exists. Both create one communicator,
 * exchange a number, and print "join: N of the other". */
#include <arpa/inet.h>
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void give_up(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* The file appears with its complete content. */
static void write_port(const char *path, int port)
{
    char fresh[4096];
    FILE *file;

    snprintf(fresh, sizeof fresh, "%s.new", path);
    file = fopen(fresh, "w");
    if (file == NULL || fprintf(file, "%d\n", port) < 0 || fclose(file) != 0 || rename(fresh, path) != 0)
        give_up(path);
}

static int read_port(const char *path)
{
    int port = 0;
    FILE *file;

    for (int tries = 0; (file = fopen(path, "r")) == NULL; tries++) {
        if (tries == 1200)
            give_up(path);
        usleep(50 * 1000);
    }
    if (fscanf(file, "%d", &port) != 1)
        give_up(path);
    fclose(file);
    return port;
}

static int meet(int listens, const char *path)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof address;
    struct sockaddr *any = (struct sockaddr *) &address;
    int end = socket(AF_INET, SOCK_STREAM, 0);

    if (!listens) {
        address.sin_port = htons(read_port(path));
        if (connect(end, any, length) != 0)
            give_up("connect");
        return end;
    }
    if (bind(end, any, length) != 0 || listen(end, 1) != 0 || getsockname(end, any, &length) != 0)
        give_up("listen");
    write_port(path, ntohs(address.sin_port));
    int other = accept(end, NULL, NULL);
    if (other < 0)
        give_up("accept");
    close(end);
    return other;
}

int main(int argc, char **argv)
{
    int end, listens, given, taken = 0;
    MPI_Comm other;

    MPI_Init(&argc, &argv);
    if (argc != 3) {
        fprintf(stderr, "usage: join listen|connect FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    listens = strcmp(argv[1], "listen") == 0;
    end = meet(listens, argv[2]);
    MPI_Comm_join(end, &other);
    close(end);
    given = listens ? 17 : 42;
    MPI_Sendrecv(&given, 1, MPI_INT, 0, 1, &taken, 1, MPI_INT, 0, 1, other, MPI_STATUS_IGNORE);
    printf("join: %d of the other\n", taken);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
    return 0;
}
